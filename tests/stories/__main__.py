"""`python -m tests.stories S1`: serve a story by `isvc run`, type its commands, check the answers, stop.

Further arguments are those of `isvc run`. What needs an ingress with HTTPS, or a bucket, is for the end-to-end tests.
"""

from __future__ import annotations

import argparse
import sys

from tests.stories.laptop import NotServed, management_of, served, volumes
from tests.stories.stories import STORIES
from tests.stories.story import Place, Service, Story


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.stories", description=__doc__)
    stories = {story.number: story for story in STORIES if not story.bucket}
    parser.add_argument("story", choices=stories)
    parser.add_argument("--http-port", default="8080")
    options, arguments = parser.parse_known_args()
    story = stories[options.story]
    if "--pvc" not in arguments:
        arguments += volumes(story)
    try:
        with served(story, f"--http-port={options.http_port}", *arguments) as laptop:
            url, management = f"http://127.0.0.1:{options.http_port}", management_of("".join(laptop.log))
            for service in story.services:
                place = Place(f"{service.name}.default.example.com", url, management=management)
                if not tell(story, service, place):
                    return 1
    except NotServed:
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def tell(story: Story, service: Service, place: Place) -> bool:
    """Print each command with its answer, to the first that is not the expected one."""
    for ask in service.asks:
        if ask.is_possible(place):
            answer = ask.ask(place, story.folder())
            print(f"$ {ask.typed(place)}\n{ask.shown(answer)}", flush=True)
            if not ask.is_answered(answer):
                print(f"expected: 200 {ask.answer or ask.words or ''}", file=sys.stderr)
                return False
    return True


if __name__ == "__main__":
    sys.exit(main())
