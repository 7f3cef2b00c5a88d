"""Adds up the numbers of each instance: results that are the same on every machine."""


def handle(instances, context):
    return None if instances is None else [sum(instance) for instance in instances]
