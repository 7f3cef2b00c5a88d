"""People who look at one cluster through one process, each by a token: the API server says who they are, and what each
may see.

A person's token is used for these questions, for logs and for requests to services, so nobody reaches more through this
process than without it. What the process itself may watch is shown to those who may list it, too.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from isvc.api_server import ProxyApi
from isvc.dashboard.errors import NotSignedIn
from isvc.limits import DASHBOARD_PEOPLE, DASHBOARD_REVIEW_SECONDS
from isvc.source.reach import Reach
from isvc.source.rights import SHOWN, may_list, notes_of
from isvc.source.source import ClusterSource
from isvc.view.source import Shown
from isvc_operator.api import inference_service
from isvc_operator.errors import OperatorError
from isvc_operator.kube.errors import KubeError
from isvc_operator.kube.requests import ApiRequest, decode
from isvc_operator.manifests import ServiceKey
from isvc_operator.text import one_line

_NAME: Final = 253  # characters of a person's name that are shown
_UNAUTHORIZED: Final = 401
_WHO_AM_I: Final = ApiRequest(  # everybody may ask
    "POST",
    "/apis/authentication.k8s.io/v1/selfsubjectreviews",
    body={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
)
_ANONYMOUS: Final = "system:anonymous"


@dataclass
class Person:
    """A Viewer of the dashboard, whose ``name`` is known after the first review.

    ``reach``: logs and services, by this person's rights. ``api`` has the person's token, and a pause of its own.
    ``places`` has, for each namespace with services, what this person may list there; nothing of one where that person
    may not list services.
    """

    reach: Reach
    api: ProxyApi
    review: Callable[[Person], Coroutine[None, None, None]]
    name: str = ""
    places: dict[str, frozenset[Shown]] = field(default_factory=dict)
    reviewed: float = float("-inf")
    reviewing: asyncio.Lock = field(default_factory=asyncio.Lock)
    _noticing: asyncio.Task[None] | None = None

    def may_see(self, key: ServiceKey) -> bool:
        """Whether this person may list the services of its namespace.

        That of a namespace whose first service has just been created is known a moment later.
        """
        if key.namespace not in self.places and (self._noticing is None or self._noticing.done()):
            self._noticing = asyncio.create_task(self._notice())
        return inference_service.KIND in self.places.get(key.namespace, ())

    async def _notice(self) -> None:
        with suppress(OperatorError):  # the next page says it
            await self.review(self)

    def hidden(self, key: ServiceKey) -> frozenset[Shown]:
        """Return what this person may not see of a service."""
        return SHOWN - self.places.get(key.namespace, frozenset())

    def notes(self) -> Sequence[str]:
        """Return what this person does not see, each in a sentence."""
        seen = {place: shown for place, shown in self.places.items() if inference_service.KIND in shown}
        if not seen:
            return [f"{self.name} may not list InferenceServices in any namespace that has some"]
        return notes_of(seen)


class ClusterPeople:
    """Finds people by their tokens. ``api_of`` makes a client of a token; ``clock`` counts seconds."""

    def __init__(self, source: ClusterSource, api_of: Callable[[str], ProxyApi], clock: Callable[[], float]) -> None:
        self._source = source
        self._api_of = api_of
        self._clock = clock
        self._known: OrderedDict[bytes, Person] = OrderedDict()  # by the tokens' digests

    async def person(self, token: str) -> Person:
        """Return the owner of a token, whose rights were looked at in the last half minute.

        Raises NotSignedIn if the API server does not accept the token, and KubeError if it does not respond.
        """
        digest = hashlib.sha256(token.encode()).digest()
        person = self._known.get(digest)
        if person is None:  # at once, so that all requests with a token are of one person, whose rights they share
            api = self._api_of(token)
            person = self._known[digest] = Person(self._source.reached_by(api), api, self._review)
        self._known.move_to_end(digest)
        if len(self._known) > DASHBOARD_PEOPLE:
            self._known.popitem(last=False)
        try:
            await person.review(person)
        except NotSignedIn:
            self._known.pop(digest, None)
            raise
        return person

    async def _review(self, person: Person) -> None:
        """Ask again what is too old, and for the first time about namespaces that have services by now."""
        async with person.reviewing:
            is_first = person.reviewed == float("-inf")
            if is_first:
                person.name = await _name_of(person.api)
            places = {key.namespace for key in self._source.keys()}  # noqa: SIM118 - not a dict
            is_recent = self._clock() - person.reviewed < DASHBOARD_REVIEW_SECONDS
            known = {place: shown for place, shown in person.places.items() if is_recent and place in places}
            if is_recent and not places - known.keys():
                return
            before = person.places
            try:
                person.places = known | await may_list(person.api, sorted(places - known.keys()))
            except KubeError as error:
                raise _refused(error) from error
            person.reviewed = person.reviewed if is_recent else self._clock()
            if not is_first:  # there may be pages that show what the person saw until now
                different = {place for place in places if before.get(place) != person.places.get(place)}
                self._source.show_again(key for key in self._source.keys() if key.namespace in different)  # noqa: SIM118


async def _name_of(api: ProxyApi) -> str:
    try:
        review = decode(await api.send(_WHO_AM_I))
    except KubeError as error:
        raise _refused(error) from error
    name = str(review["status"]["userInfo"]["username"])
    if name == _ANONYMOUS:
        raise NotSignedIn("the token did not reach the API server")
    return one_line(name, _NAME)


def _refused(error: KubeError) -> Exception:
    if error.status == _UNAUTHORIZED:
        return NotSignedIn("the API server does not accept the token: it is not one of this cluster, or has expired")
    return error
