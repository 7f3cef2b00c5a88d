"""The dashboard: pages about services, live by server-sent events, for ``isvc dashboard`` and ``isvc run``.

It reads a ServiceSource and knows nothing of clusters and processes. Who may look, and at what, is decided in `access`.

    server      routes, headers, start and stop
    access      who looks: the owner of a run's token
    sign_in     who looks: people with tokens of the cluster
    guard       what each request has to pass
    pages       the pages and their streams of changes
    request     the form that sends a request to a service
    log         the stream of the log of a container, or of all
    feed        one reading of the source's changes, for all who look
    scraping    the pods' metrics, read more often while somebody looks
    traffic     rates and percentiles from those metrics           pure
    states      how a service is: one state, one line, one fix     pure
    timeline    where a start spent its time                       pure
    samples     a request's body from a model's metadata           pure
    markup      templates, and how texts and values are written    pure
"""
