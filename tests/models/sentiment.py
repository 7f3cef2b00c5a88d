"""`python -m tests.models.sentiment FOLDER` makes the folder of docs/huggingface.md, with a BERT of nine words."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from tests.support.build_cache import ROOT

PAGE = ROOT / "docs/huggingface.md"
_ADDED = re.compile(r"`sentiment/([\w.-]+)`[^`]*:\n\n```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "movie")
_LABELS = ("NEGATIVE", "POSITIVE")
_TEXTS = ("a bad movie", "a good movie")


def build(folder: Path) -> None:
    """Save the model, which knows the two texts, and add the files of the page."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    with tempfile.NamedTemporaryFile("w", suffix=".txt") as words:
        words.write("\n".join(_WORDS))
        words.flush()
        tokenizer = BertTokenizerFast(vocab=words.name)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    names = {"id2label": dict(enumerate(_LABELS)), "label2id": {label: index for index, label in enumerate(_LABELS)}}
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig(vocab_size=len(_WORDS), **sizes, **names)).eval()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    tokens, labels = tokenizer(list(_TEXTS), return_tensors="pt"), torch.arange(len(_LABELS))
    for _ in range(100):
        optimizer.zero_grad()
        model(**tokens, labels=labels).loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for name, content in _ADDED.findall(PAGE.read_text()):
        (folder / name).write_text(content)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
