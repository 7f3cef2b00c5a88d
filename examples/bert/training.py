"""Trains the classifier on sentences.json: seconds on one core, the same weights from the same sentences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import ascii_lowercase, digits

import torch
from model import BertClassifier
from torch import Tensor
from torch.nn.functional import cross_entropy
from wordpiece import SPECIAL, WordPiece, words

HERE = Path(__file__).parent
STEPS = 100
RATE = 1e-3
MIN_PROBABILITY = 0.8

Labelled = Mapping[str, Sequence[str]]


class NotLearnedError(Exception):
    """The trained model does not know its check sentences by heart."""


def load_sentences() -> tuple[Labelled, Labelled]:
    """Sentences by label: those to train on, and others that must come out right."""
    sentences = json.loads((HERE / "sentences.json").read_text(encoding="utf-8"))
    return sentences["train"], sentences["check"]


def build_vocabulary(sentences: Labelled) -> list[str]:
    """Special tokens, every character as a piece (so that no word is unknown), then every word seen."""
    characters = ascii_lowercase + digits
    seen = {word for texts in sentences.values() for text in texts for word in words(text)}
    whole = sorted(seen - set(characters))
    return [*SPECIAL, *characters, *(f"##{character}" for character in characters), *whole]


def train(sentences: Labelled, tokenizer: WordPiece) -> BertClassifier:
    """Sign descent with a falling rate: as good as Adam here, and torch.optim takes longer to import."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = BertClassifier()
    ids, classes = _tensors(sentences, tokenizer, model)
    parameters = list(model.parameters())
    for step in range(STEPS):
        gradients = torch.autograd.grad(cross_entropy(model(ids), classes), parameters)
        rate = RATE * (1 - step / STEPS)
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= rate * gradient.sign()
    return model.eval()


def check(model: BertClassifier, tokenizer: WordPiece, sentences: Labelled) -> None:
    """Every sentence gets its class with a margin, or ``NotLearnedError`` names those that do not."""
    ids, classes = _tensors(sentences, tokenizer, model)
    with torch.inference_mode():
        probabilities = model(ids).softmax(dim=1)[range(len(classes)), classes]
    texts = [text for group in sentences.values() for text in group]
    weak = [f"{text!r}: {p:.2f}" for text, p in zip(texts, probabilities, strict=True) if p < MIN_PROBABILITY]
    if weak:
        raise NotLearnedError(f"probability of the right class below {MIN_PROBABILITY}: {', '.join(weak)}")


def _tensors(sentences: Labelled, tokenizer: WordPiece, model: BertClassifier) -> tuple[Tensor, Tensor]:
    names = json.loads((HERE / "index_to_name.json").read_text(encoding="utf-8"))
    number = {name: int(index) for index, name in names.items()}
    texts = [text for group in sentences.values() for text in group]
    classes = [number[label] for label, group in sentences.items() for _ in group]
    rows = tokenizer.encode_batch(texts, max_length=model.positions.num_embeddings)
    return torch.tensor(rows), torch.tensor(classes)
