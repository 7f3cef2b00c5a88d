"""Services of namespaces that are being deleted."""

from __future__ import annotations

from isvc_operator.api.names import LABEL_SERVICE
from isvc_operator.controller.ending import TRIED_AGAIN, Ending
from isvc_operator.kube.cache import Cache
from isvc_operator.manifests import ServiceKey
from tests.support.builders import a_service_body
from tests.support.fakes import Seconds

KEY = ServiceKey("models", "torchserve")


def test_the_services_of_a_namespace_that_ends_are_known_and_no_others() -> None:
    cache = Cache(LABEL_SERVICE)
    elsewhere = a_service_body()
    elsewhere["metadata"]["namespace"] = "others"
    for body in (a_service_body(), elsewhere):
        cache.put(body)
    ending = Ending(cache, Seconds())
    ending.add("models")

    assert (ending.left(KEY), ending.left(ServiceKey("others", "torchserve"))) == (TRIED_AGAIN, 0.0)


def test_a_service_of_a_namespace_that_was_created_again_is_another_one() -> None:
    cache = Cache(LABEL_SERVICE)
    cache.put(a_service_body())
    ending = Ending(cache, Seconds())
    ending.add("models")
    cache.remove(a_service_body())
    gone = ending.left(KEY)
    cache.put(a_service_body(uid="another-uid"))

    assert (gone, ending.left(KEY)) == (0.0, 0.0)


def test_a_forgotten_service_is_not_known_any_more() -> None:
    cache = Cache(LABEL_SERVICE)
    cache.put(a_service_body())
    ending = Ending(cache, Seconds())
    ending.add("models")
    ending.forget(KEY)

    assert not ending.left(KEY)


def test_a_service_is_tried_again_as_it_may_be_in_another_namespace_of_that_name() -> None:
    cache, clock = Cache(LABEL_SERVICE), Seconds()
    cache.put(a_service_body())
    ending = Ending(cache, clock)
    ending.add("models")
    clock.passed = TRIED_AGAIN

    assert not ending.left(KEY)
