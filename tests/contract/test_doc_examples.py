"""Each block of commands in the docs is run by a test, or the table says why it is not.

The `isvc` command lines of all blocks are parsed by tests/unit/cli/test_examples.py.
"""

from __future__ import annotations

import re
from enum import StrEnum

from tests.support.build_cache import ROOT
from tests.support.doc_blocks import blocks
from tests.support.named_tests import missing


class Reason(StrEnum):
    """Why no test runs a block as it stands."""

    USERS = "needs what only its reader has: a registry, a host, a package index"
    SUITE = "starts the suite itself"
    CLUSTER = "needs a cluster with nodes, or with the operator installed"
    FRAGMENT = "has parts left out"


_TRANSFORMERS = "tests/e2e/cluster/test_transformers_page.py::test_the_page_leads_from_an_empty_folder_to_a_prediction"
_FIVE_MINUTES = "tests/e2e/programs/test_distributions.py::test_the_first_five_minutes_are_as_the_page_says"
_PACK = "tests/unit/cli/test_pack.py::test_the_commands_of_the_page_do_what_it_says"
_DOCS = "tests/integration/cli/test_docs.py::"
_NEW_MODEL = _DOCS + "test_the_tests_of_a_new_model_pass"
_SERVED_MODEL = _DOCS + "test_a_new_model_is_run_and_packed_as_on_the_pages"
_SEQUENCE = _DOCS + "test_a_sequence_has_its_number_in_a_header"
_ADDRESSES = _DOCS + "test_a_run_prints_the_addresses_of_the_page"
_RENDERED = _DOCS + "test_rendered_objects_are_what_a_cluster_gets"
_PACKED = _DOCS + "test_what_is_packed_is_printed_and_looked_into"
_ANSWERED = _DOCS + "test_a_block_is_answered"
_CONSOLE = _DOCS + "test_a_console_prints_what_the_page_shows"
_HTTPS = _DOCS + "test_http_and_https_of_an_ingress_have_the_same_response"
_CLUSTER_ASKED = _DOCS + "test_a_service_of_a_cluster_is_asked_and_measured"
_HUGGING_FACE = "tests/models/test_huggingface_page.py::test_the_folder_of_the_page_answers_as_it_shows"
_READMES = "tests/integration/local/test_readmes.py::"
_MAKE = _READMES + "test_make_serves_the_sample"
_ARCHIVE = _READMES + "test_an_archive_of_mnist_predicts_the_digit"
_BARE = _READMES + "test_a_bare_model_of_mnist_has_ten_predictions"
_TRANSFORMER = _READMES + "test_a_transformer_of_mnist_takes_a_picture"
_PICTURES = _READMES + "test_pictures_have_embeddings_and_tags"
_SEEN = "tests/integration/cluster_view/test_page.py::test_an_example_is_what_is_printed"
_PREDICT = "tests/integration/cli/test_predict.py::"
_WAYS = _PREDICT + "test_the_ways_of_the_page_lead_to_the_model"
_SHAPES = _PREDICT + "test_the_shapes_of_the_page_are_sent_to_the_protocols_that_it_names"
_DOCTOR = "tests/integration/cli/test_doctor.py::test_a_cluster_without_an_installation_is_the_one_of_the_page"
_DIFF = "tests/integration/operator_core/test_diff.py::test_two_replicas_differ_as_the_page_shows"
_LOGS = "tests/integration/cluster_view/test_page.py::test_the_lines_that_logs_shows_are_read"
_DASHBOARD = "tests/integration/cluster_view/test_page.py::test_a_dashboard_says_where_it_is"
_CHANGED = "tests/e2e/migrate/test_changeover.py::test_services_change_over_and_back"
_PLANNED = "tests/e2e/migrate/test_changeover.py::test_the_page_plans_with_what_kubectl_renders"
_VALIDATED = "tests/unit/cli/test_validate_page.py::test_the_lines_of_the_page_are_printed"
_KUBECTL = "tests/integration/cli/test_kubectl_blocks.py::"
_BLOCK = _KUBECTL + "test_a_block_does_what_it_says"
_KOPF = "tests/integration/operator_core/test_kopf_run.py::test_kopf_run_serves_services_and_probes"
_CONDITIONS = _KUBECTL + "test_conditions_are_counted"
_FINALIZER = _KUBECTL + "test_the_finalizer_of_kserve_is_removed"
_KSERVES = _KUBECTL + "test_runtimes_of_kserve_are_installed"
_BESIDE = _KUBECTL + "test_what_is_beside_the_operator_is_found_and_applied"
_DEPLOYED = "tests/integration/release/test_manifests.py::test_what_make_deploy_installs_is_removed_as_the_page_says"
_UNMONITORED = _KUBECTL + "test_nothing_is_applied_for_a_prometheus_operator_that_is_not_there"
_ARCHIVES = _READMES + "test_archives_are_asked_as_torchserves_users_do"
_TORCHSERVE = _READMES + "test_torchserve_alone_serves_the_sample"
_TEMPLATE = "tests/integration/kserve_sdk/test_page.py::test_the_page_runs_the_commands_of_a_new_transformers_readme"
_FROM_TORCHSERVE = _READMES + "test_a_folder_of_torchserve_is_served_and_asked_as_the_page_says"
RUN_BY: dict[str, str] = {
    'docs/from-torchserve.md: python examples/torchserve/build.py build/torchserve': _FROM_TORCHSERVE,
    'docs/from-torchserve.md: url=http://127.0.0.1:8080/default/archives': _FROM_TORCHSERVE,
    "README.md: $ curl -X POST -H 'Host: torchserve.default.example.": _CONSOLE,
    'README.md: make setup    # 3 GiB of downloads, once': Reason.SUITE,
    'README.md: make cluster-up   # uses $KUBECONFIG if set, else ki': Reason.CLUSTER,
    'docs/batching.md: $ curl -H \'ts_request_sequence_id: order-17\' -H "Hos': _SEQUENCE,
    'docs/batching.md: $ curl -si -H \'X-Server-Timing: 1\' -H "Host: $HOST" ': _CONSOLE,
    'docs/bench.md: isvc bench torchserve -d @sample.json               ': _CLUSTER_ASKED,
    'docs/bench.md: isvc bench http://127.0.0.1:8080/default/torchserve/': _ANSWERED,
    'docs/choose-a-runtime.md: kubectl apply --server-side -k manifests/runtimes-ks': _KSERVES,
    'docs/dashboard.md: $ isvc dashboard --namespace models': _DASHBOARD,
    'docs/dashboard.md: kubectl apply --server-side -f dashboard.yaml   # or': _BESIDE,
    'docs/dashboard.md: kubectl --namespace isvc-system port-forward service': Reason.CLUSTER,
    'docs/diff.md: $ isvc diff service.yaml': _DIFF,
    'docs/doctor.md: $ isvc doctor -n team': _DOCTOR,
    'docs/first-five-minutes.md: isvc new model largest': _FIVE_MINUTES,
    'docs/first-five-minutes.md: isvc run largest/largest --watch': _FIVE_MINUTES,
    'docs/first-five-minutes.md: $ curl http://127.0.0.1:8080/default/largest/v1/mode': _CONSOLE,
    'docs/first-model.md: export KUBECONFIG=$PWD/.cluster/kubeconfig': Reason.CLUSTER,
    'docs/first-model.md: make setup': _MAKE,
    'docs/first-model.md: kubectl apply -f examples/bert/claim.yaml -f example': Reason.CLUSTER,
    'docs/first-model.md: kubectl apply -f examples/bert/inferenceservice.yaml': Reason.CLUSTER,
    'docs/first-model.md: kubectl describe isvc torchserve': Reason.CLUSTER,
    "docs/first-model.md: curl -X POST -H 'Host: torchserve.default.example.co": _HTTPS,
    "docs/first-model.md: H='Host: torchserve.default.example.com'": _ANSWERED,
    'docs/first-model.md: .venv/bin/isvc predict torchserve -d @examples/bert/': _CLUSTER_ASKED,
    'docs/first-model.md: kubectl annotate isvc torchserve serving.kserve.io/s': _BLOCK,
    'docs/huggingface.md: MODEL=distilbert/distilbert-base-uncased-finetuned-s': Reason.USERS,
    'docs/huggingface.md: isvc run sentiment': _HUGGING_FACE,
    'docs/huggingface.md: $ curl http://127.0.0.1:8080/default/sentiment/v1/mo': _HUGGING_FACE,
    'docs/ingress.md: $ curl https://ml.example.com/serving/bank/income/v1': Reason.USERS,
    'docs/install-isvc.md: cd isvc-operator          # your clone': Reason.SUITE,
    "docs/install-isvc.md: uv tool install 'isvc-operator[local]' --constraints": Reason.USERS,
    "docs/install-isvc.md: uv tool install 'isvc-operator[local]' --torch-backe": Reason.USERS,
    "docs/install-isvc.md: $ pipx install 'isvc-operator[local]' --pip-args='--": Reason.USERS,
    'docs/install.md: kubectl apply --server-side --force-conflicts -f ins': Reason.CLUSTER,
    'docs/install.md: helm upgrade --install isvc-operator-crds isvc-opera': Reason.USERS,
    'docs/install.md: kubectl apply --server-side -k .': Reason.USERS,
    'docs/install.md: python -m tests.support.permissions .cluster/log/aud': Reason.CLUSTER,
    'docs/install.md: kubectl create rolebinding alice --namespace team-a ': _BLOCK,
    'docs/install.md: kubectl create rolebinding isvc-operator-credentials': _BLOCK,
    'docs/migrate-from-kserve.md: kubectl kustomize manifests/overlays/default > opera': _PLANNED,
    'docs/migrate-from-kserve.md: isvc migrate apply --manifests operator.yaml': _CHANGED,
    'docs/migrate-from-kserve.md: isvc migrate back': _CHANGED,
    'docs/migrate-from-kserve.md: $ isvc migrate plan --manifests operator.yaml': Reason.FRAGMENT,
    'docs/operations.md: kubectl --namespace isvc-system get lease isvc-opera': _BESIDE,
    "docs/operations.md: kubectl get isvc --all-namespaces -o json | jq -r '.": _CONDITIONS,
    'docs/operations.md: kubectl get crd podmonitors.monitoring.coreos.com pr': _UNMONITORED,
    "docs/operations.md: kubectl get isvc --all-namespaces -o json | jq '[.it": _CONDITIONS,
    'docs/pack.md: $ isvc pack largest --export-path volume': _PACKED,
    'docs/pack.md: isvc pack --model-name mnist --version 1.0 --model-f': _PACK,
    'docs/pack.md: $ isvc inspect volume': _PACKED,
    "docs/pack.md: isvc inspect volume --output json | python -c 'impor": _PACK,
    'docs/predict.md: $ isvc predict torchserve -d @sample.json': _CLUSTER_ASKED,
    'docs/predict.md: isvc predict bert -d \'{"instances": [1, 2]}\'        ': _SHAPES,
    'docs/predict.md: isvc predict bert -d @sample.json --port-forward': _WAYS,
    'docs/predict.md: $ isvc predict torchserve -f sample.json --url http:': _CONSOLE,
    'docs/protocols.md: curl -H "Host: $HOST" $URL/v1/models/mnist:predict -': _ANSWERED,
    'docs/protocols.md: curl -H "Host: $HOST" $URL/v2/models/mnist/infer -d ': _ANSWERED,
    'docs/protocols.md: curl -H "Host: $HOST" $URL/predictions/densenet161 -': _ANSWERED,
    'docs/protocols.md: curl --no-buffer -H "Host: $HOST" $URL/predictions/l': _ANSWERED,
    'docs/run-on-a-laptop.md: make run        # the sample, until Ctrl-C': _MAKE,
    'docs/run-on-a-laptop.md: $ isvc run examples/bert/inferenceservice.yaml --pvc': _ADDRESSES,
    'docs/run-on-a-laptop.md: isvc render examples/bert/inferenceservice.yaml': _RENDERED,
    'docs/run-with-kopf.md: kopf run -m isvc_operator.handlers.operator -A --sta': _KOPF,
    'docs/security.md: kubectl label namespace bank pod-security.kubernetes': Reason.CLUSTER,
    'docs/see-inside.md: $ isvc status': _SEEN,
    'docs/see-inside.md: $ isvc status torchserve': _SEEN,
    'docs/see-inside.md: $ isvc diagnose torchserve': _SEEN,
    'docs/see-inside.md: isvc logs torchserve                            # th': _LOGS,
    'docs/storage.md: $ kubectl logs deploy/bert-predictor -c storage-init': Reason.CLUSTER,
    'docs/storage.md: kubectl create secret generic azure --from-literal=A': _BLOCK,
    'docs/storage.md: kubectl create secret generic google --from-file=gcl': _BLOCK,
    'docs/storage.md: kubectl create secret generic hub --from-literal=HF_': _BLOCK,
    'docs/transformers.md: isvc new transformer digits': _TRANSFORMERS,
    'docs/transformers.md: python -m pytest': _TRANSFORMERS,
    'docs/transformers.md: python ../examples/mnist/build.py ../build/mnist': _TRANSFORMERS,
    'docs/transformers.md: python -c \'import json; print(json.dumps({"instances': _TRANSFORMERS,
    'docs/transformers.md: isvc run inferenceservice.yaml --pvc digits=../build': _TRANSFORMERS,
    'docs/transformers.md: docker build -t localhost/isvc-operator/digits:0.2.0': _TRANSFORMERS,
    'docs/transformers.md: bash ../tests/cluster/bring digits': _TRANSFORMERS,
    'docs/transformers.md: kubectl apply -f inferenceservice.yaml': _TRANSFORMERS,
    "docs/transformers.md: curl --silent -i -X POST -H 'x-server-timing: 1' -T ": _TRANSFORMERS,
    'docs/transformers.md: kill %1 %2': _TRANSFORMERS,
    'docs/troubleshooting.md: kubectl -n isvc-system logs deployment/isvc-operator': Reason.CLUSTER,
    "docs/validate.md: $ pip install 'isvc-operator[validate]'": _VALIDATED,
    'docs/uninstall.md: kubectl --namespace isvc-system delete deployment is': Reason.CLUSTER,
    'docs/uninstall.md: kubectl delete isvc --all --all-namespaces': _BLOCK,
    'docs/uninstall.md: kubectl delete --ignore-not-found -f install.yaml': Reason.CLUSTER,
    'docs/uninstall.md: bash tests/cluster/render local | kubectl delete --i': _DEPLOYED,
    'docs/uninstall.md: helm uninstall isvc-operator --namespace isvc-system': Reason.CLUSTER,
    'docs/uninstall.md: kubectl patch isvc NAME --type=json --patch=\'[{"op":': _FINALIZER,
    'docs/validate.md: kubectl get isvc --all-namespaces -o yaml | isvc val': _BLOCK,
    'examples/bert/README.md: cd build/bert && TS_SERVICE_ENVELOPE=kserve \\': _TORCHSERVE,
    'examples/mnist/README.md: python examples/mnist/build.py build/mnist': _ARCHIVE,
    'examples/mnist/README.md: curl -X POST -T examples/mnist/sample-tensor.json ht': _BARE,
    'examples/mnist/README.md: kubectl apply -f examples/mnist/inferenceservice-mar': Reason.CLUSTER,
    'examples/mnist_transformer/README.md: python examples/mnist/build.py build/mnist': _TRANSFORMER,
    'examples/mnist_transformer/README.md: docker build -t localhost/isvc-operator/mnist-transf': Reason.USERS,
    'examples/resnet50/README.md: python examples/resnet50/build.py build/resnet50': _PICTURES,
    "examples/resnet50/README.md: host='Host: pictures.default.example.com'": _PICTURES,
    'examples/resnet50/README.md: python examples/resnet50/load.py build/picture.png -': _PICTURES,
    'examples/resnet50/README.md: kubectl apply -f examples/resnet50/inferenceservice.': Reason.CLUSTER,
    'examples/torchserve/README.md: python examples/torchserve/build.py build/torchserve': _ARCHIVES,
    "examples/torchserve/README.md: host='Host: archives.default.example.com'": _ARCHIVES,
    "examples/torchserve/README.md: curl -X POST 'http://127.0.0.1:8081/models?url=dense": _ARCHIVES,
    'examples/torchserve/README.md: kubectl apply -f examples/torchserve/image-classifie': Reason.CLUSTER,
    'templates/model/README.md.template: python train.py': _NEW_MODEL,
    'templates/model/README.md.template: mkdir -p volume': _SERVED_MODEL,
    'templates/model/README.md.template: isvc run {{name}} --watch': _SERVED_MODEL,
    'templates/model/README.md.template: kubectl apply -f inferenceservice.yaml': Reason.CLUSTER,
    'templates/transformer/README.md.template: pytest': _TRANSFORMERS,
    'templates/transformer/README.md.template: python model.py --model_name {{name}} --predictor_ho': _TEMPLATE,
    'templates/transformer/README.md.template: isvc run inferenceservice.yaml --pvc {{name}}=FOLDER': _TEMPLATE,
    'templates/transformer/README.md.template: docker build -t localhost/isvc-operator/{{name}}:0.2': Reason.USERS,
    'templates/transformer/README.md.template: kubectl apply -f inferenceservice.yaml': Reason.CLUSTER,
}  # fmt: skip

_PLACED = re.compile(r"(docs|examples/\w+)/[\w-]+\.md$")
_PLACE = re.compile(r"\b(any|the|same) folder\b|\broot of (a|the|this)\b|`kubectl`")


def test_each_block_is_in_the_table() -> None:
    assert {block.key for block in blocks()} == set(RUN_BY)


def test_each_page_says_before_its_first_block_where_to_type_it() -> None:
    def before(page: str) -> str:
        first, *_ = re.split(r"^ *```(?:sh|console|bash)$", (ROOT / page).read_text(), flags=re.MULTILINE)
        return " ".join(first.split())

    pages = {block.page for block in blocks() if _PLACED.match(block.page)}
    assert sorted(page for page in pages if not _PLACE.search(before(page))) == []


def test_the_keys_of_blocks_are_unique() -> None:
    keys = [block.key for block in blocks()]

    assert sorted(set(keys)) == sorted(keys)


def test_the_tests_that_the_table_names_are_there() -> None:
    assert missing(value for value in RUN_BY.values() if not isinstance(value, Reason)) == []
