"""A running batch that writes words: a step takes as long as the archive's YAML says, however many requests it has."""

import time


class Words:
    def initialize(self, context):
        self.step_s = context.model_yaml_config["step_ms"] / 1000
        self.left = {}

    def handle(self, data, context):
        ids = list(context.request_ids.values())
        for name, row in zip(ids, data, strict=True):
            if row:
                self.left[name] = int(row["body"])
        for name in self.left.keys() - set(ids):
            del self.left[name]
        if self.step_s:
            time.sleep(self.step_s)
        context.stopping_criteria = [self.stops(name) for name in ids]
        return ["w "] * len(ids)

    def stops(self, name):
        def is_last(_):
            self.left[name] -= 1
            return self.left[name] <= 0

        return is_last
