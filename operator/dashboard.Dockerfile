# The dashboard: the command `isvc` on the operator's image. Build context: the repository's root. `make images` builds it.
ARG OPERATOR_IMAGE=localhost/isvc-operator/operator:0.2.0

FROM ${OPERATOR_IMAGE}
# A release sets it, and the files' times to it: bytecode is then bound to its source by a hash instead.
ARG SOURCE_DATE_EPOCH
USER 0
COPY operator/src/isvc /opt/app/isvc
RUN python3 -m compileall -q /opt/app/isvc
USER 1000:1000
ENTRYPOINT ["python", "-m", "isvc.console", "dashboard"]
