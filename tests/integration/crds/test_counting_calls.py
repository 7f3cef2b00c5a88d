"""The test API server's own count of calls, on which other tests rely."""

from __future__ import annotations

import ssl
import urllib.request

from tests.support.apiserver import ApiServer, Call


def get(server: ApiServer, uri: str, user_agent: str) -> None:
    headers = {"Authorization": f"Bearer {server.token}", "User-Agent": user_agent}
    context = ssl.create_default_context(cafile=str(server.ca_file))
    request = urllib.request.Request(server.base_url + uri, headers=headers)
    urllib.request.urlopen(request, context=context, timeout=10).close()


def test_each_call_is_counted_once_by_its_user_agent(apiserver: ApiServer) -> None:
    uri = "/api/v1/namespaces/default"
    get(apiserver, uri, "counted/1.0")
    start = apiserver.position()
    get(apiserver, uri, "counted/1.0")
    get(apiserver, uri, "another/1.0")
    call = Call("get", uri, "namespaces", "", "default", "default", "counted/1.0")
    assert apiserver.calls("counted/", since=start) == [call]
    assert apiserver.calls("counted/") == [call, call]
