"""Every limit of the command line and the dashboard: sizes, counts and times of external input.

Those that the operator has, too, are in ``isvc_operator.limits``.
"""

from __future__ import annotations

from typing import Final

# --- the API server -------------------------------------------------------------------------------------
KUBECONFIG_BYTES: Final = 4 * 1024 * 1024  # of one file, with its certificates
FIRST_RESPONSE_SECONDS: Final = 10.0  # for the first response to a command
PROXIED_BYTES: Final = 16 * 1024 * 1024  # of a pod's response through the API server

# --- what people see of services (`isvc status`, the dashboard) ------------------------------------------
SEEN_ITEMS: Final = 1000  # of each list in an object: conditions, containers, rules
SEEN_PODS: Final = 200  # of a component, the newest first
SEEN_EVENTS: Final = 50  # of a pod or a service, the last ones
UNPLACED_EVENTS: Final = 2000  # of pods that are not known (yet)
SEEN_LOG_SECONDS: Final = 5.0  # for the end of a container's log, which a node that is gone does not send
LOG_LINE_CHARACTERS: Final = 16 * 1024  # of a line of a container's log
SEEN_MOMENTS: Final = 500  # of a service's history, the last ones

# --- `isvc bench` ---------------------------------------------------------------------------------------
BENCH_CONNECTIONS: Final = 1000
BENCH_SECONDS: Final = 3600
BENCH_REQUESTS: Final = 10_000_000  # of one run; at most 16 bytes are kept of each
BENCH_RATE: Final = 100_000  # requests a second
BENCH_BODY_BYTES: Final = 64 * 1024 * 1024  # of a request
SAMPLE_VALUES: Final = 1_000_000  # of a request that is made from what a model says of its inputs
SAMPLE_DIMENSIONS: Final = 16  # of an input in such a request

# --- what `isvc predict` receives --------------------------------------------------------------------------
PREDICT_SECONDS: Final = 3600  # for an answer, at most
PREDICT_BODY_BYTES: Final = 256 * 1024 * 1024  # of one request, with all its files
ANSWER_BYTES: Final = 256 * 1024 * 1024  # of one answer
MODELS_SECONDS: Final = 30.0  # in which a server on a laptop says which models it has, and what they take
SAMPLED_MODELS: Final = 20  # of a service on a laptop, for which a command is printed
MODELS_LISTED: Final = 1000  # of a server

# --- other commands on a cluster ----------------------------------------------------------------------------
LOG_LINES: Final = 100_000  # of one container, from its end
MIGRATED_SERVICES: Final = 20  # at a time
MIGRATE_SECONDS: Final = 570  # for each step of a service, less than new pods are held back for

# --- files of commands ------------------------------------------------------------------------------------
FILE_BYTES: Final = 16 * 1024 * 1024  # of one file of Kubernetes objects

# --- processes of `isvc run` ----------------------------------------------------------------------------
OUTPUT_LINE_BYTES: Final = 64 * 1024  # of a process' output that are passed on as one line
UNREAD_OUTPUT_BYTES: Final = 4 * 1024 * 1024  # of memory for lines of containers that nobody has read yet
KEPT_LOG_BYTES: Final = 4 * 1024 * 1024  # of memory for the last lines of one instance of a container
HELD_LINES: Final = 200  # of a container that is started again after a failure, until it is ready
REPEATED_LINES: Final = 100  # warnings of a container that are counted instead of printed again
KEPT_EVENTS: Final = 200  # of one service
LOCAL_REPLICAS: Final = 8  # pods of one component
PROBE_RESPONSE_BYTES: Final = 10 * 1024  # that are read of the response to a probe, as the kubelet does
SCRAPED_BYTES: Final = 16 * 1024 * 1024  # of a server's metrics
SENT_RESPONSE_BYTES: Final = 64 * 1024 * 1024  # of the response to a request that a page sends
RUN_LINE_BYTES: Final = 64 * 1024 * 1024  # of what a run tells another command of one service

# --- the dashboard --------------------------------------------------------------------------------------
DASHBOARD_STREAMS: Final = 128  # of events that are open at a time, those of logs included
DASHBOARD_PERSON_STREAMS: Final = 32  # of one person
DASHBOARD_IDLE_SECONDS: Final = 15.0  # between two requests of a connection
DASHBOARD_CONNECTIONS: Final = 512  # that are open at a time; further ones are closed at once
DASHBOARD_REQUEST_BYTES: Final = 16 * 1024 * 1024  # of a request that a form sends, with its file
DASHBOARD_REQUESTS_BYTES: Final = 48 * 1024 * 1024  # of such requests at a time, all together
DASHBOARD_HEAD_SECONDS: Final = 15.0  # for the head of the first request of a connection to arrive
DASHBOARD_BODY_SECONDS: Final = 60.0  # for the body of a request to arrive
DASHBOARD_OBJECT_BYTES: Final = 128 * 1024  # of an object, as JSON, whose YAML is shown
DASHBOARD_RESPONSE_BYTES: Final = 256 * 1024  # of a service's response that are shown, and of a model's metadata
DASHBOARD_SAMPLE_VALUES: Final = 1000  # of a sample that is made from a model's metadata, in all its inputs
DASHBOARD_ANSWER_SECONDS: Final = 120.0  # for a response to the form, if the service's own timeout is longer
DASHBOARD_LOG_LINES_AHEAD: Final = 64  # of a log that are read before the earlier ones are sent
DASHBOARD_LOG_LINES: Final = 10_000  # that a log begins with, and that the page keeps to search in
DASHBOARD_LOGS: Final = 16  # of a service's containers that are shown as one
DASHBOARD_LOG_LINE_BYTES: Final = 4096  # of one line of a log
DASHBOARD_SCRAPES: Final = 8  # of pods' metrics at a time; of services that nobody looks at, so many in five seconds
DASHBOARD_METRICS_BYTES: Final = 2 * 1024 * 1024  # of a pod's metrics
DASHBOARD_POINTS: Final = 360  # of a chart: half an hour
DASHBOARD_PEOPLE: Final = 1000  # that are signed in at a time; beyond it, who came first has to sign in again
DASHBOARD_PERSON_SESSIONS: Final = 10  # of one person; beyond them, the oldest of these has to sign in again
DASHBOARD_SESSION_SECONDS: Final = 12 * 3600.0  # after which a person has to sign in again
DASHBOARD_REVIEW_SECONDS: Final = 30.0  # after which the API server is asked again what a person may see
DASHBOARD_TOKEN_BYTES: Final = 16 * 1024  # of the token that somebody signs in with, and of the form that sends it
