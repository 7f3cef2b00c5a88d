-- One request over and over; the summary as one line of JSON. Its argument is the file with the body.
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"

function init(arguments)
  wrk.body = io.open(arguments[1], "rb"):read("*a")
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests": %d, "seconds": %f, "failed": %d, "p50_ms": %f, "p90_ms": %f, "p99_ms": %f}\n',
    summary.requests, summary.duration / 1e6,
    errors.status + errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50) / 1e3, latency:percentile(90) / 1e3, latency:percentile(99) / 1e3))
end
