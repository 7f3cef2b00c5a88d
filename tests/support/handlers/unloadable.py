"""Cannot be loaded."""


class Unloadable:
    def initialize(self, context):
        raise RuntimeError("the weights are not there")

    def handle(self, data, context):
        return data
