"""What a model archive is: its limits, what it may hold, its manifest, and how a configuration names it.

Both who copies an archive (`storage_initializer`) and who serves it (the runtimes' model store) decide by these rules,
so an archive that one of them accepts is accepted by the other. Where TorchServe 0.12 has a rule, that is the rule.
Standard library only.
"""
