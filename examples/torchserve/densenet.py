"""DenseNet-161 as TorchServe's own example has it: a class of torchvision, with the sizes of its layers."""

from torchvision.models.densenet import DenseNet


class ImageClassifier(DenseNet):
    def __init__(self) -> None:
        super().__init__(growth_rate=48, block_config=(6, 12, 36, 24), num_init_features=96)
