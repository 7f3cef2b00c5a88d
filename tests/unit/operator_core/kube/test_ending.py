"""Services of namespaces that are being deleted."""

from __future__ import annotations

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.kube.cache import Cache, ServiceKey
from isvc_operator.kube.ending import Ending
from tests.support.builders import a_service_body

KEY = ServiceKey("models", "torchserve")


def test_the_services_of_a_namespace_that_ends_are_known_and_no_others() -> None:
    cache = Cache(LABEL_SERVICE)
    elsewhere = a_service_body()
    elsewhere["metadata"]["namespace"] = "others"
    for body in (a_service_body(), elsewhere):
        cache.put(body)
    ending = Ending(cache)
    ending.add("models")

    assert (KEY in ending, ServiceKey("others", "torchserve") in ending) == (True, False)


def test_a_service_of_a_namespace_that_was_created_again_is_another_one() -> None:
    cache = Cache(LABEL_SERVICE)
    cache.put(a_service_body())
    ending = Ending(cache)
    ending.add("models")
    cache.remove(a_service_body())
    gone = KEY in ending
    cache.put(a_service_body(uid="another-uid"))

    assert (gone, KEY in ending) == (False, False)


def test_a_forgotten_service_is_not_known_any_more() -> None:
    cache = Cache(LABEL_SERVICE)
    cache.put(a_service_body())
    ending = Ending(cache)
    ending.add("models")
    ending.forget(KEY)

    assert KEY not in ending
