# A cluster in Docker, with Contour from its own manifests.
# shellcheck shell=bash

KIND_CLUSTER=isvc-operator

kind_up() {
  if [ "$(kind get clusters 2> /dev/null | grep -cx $KIND_CLUSTER)" = 0 ]; then
    say "  creating the kind cluster $KIND_CLUSTER"
    kind_config | kind create cluster --quiet --name $KIND_CLUSTER --config - --kubeconfig "$STATE/kubeconfig" --wait 120s
  fi
  kind get kubeconfig --name $KIND_CLUSTER > "$STATE/kubeconfig"
  gateway_api "$(contour_examples)/../gateway/00-crds.yaml"
  kubectl apply --server-side --force-conflicts --filename "$(contour_examples)" > /dev/null
  wildcard_certificate
  gateway
  kubectl apply --server-side --force-conflicts --filename "$(contour_examples)/../gateway/03-contour-config.yaml" > /dev/null
  kubectl --namespace $CONTOUR_NAMESPACE rollout status deployment/contour daemonset/envoy --timeout=180s > /dev/null
  ingress_class
}

kind_config() { # Contour's Envoy takes the node's ports 80 and 443
  cat << YAML
kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
- role: control-plane
  extraPortMappings:
  - {containerPort: 80, hostPort: $HTTP_PORT, listenAddress: 127.0.0.1}
  - {containerPort: 443, hostPort: $HTTPS_PORT, listenAddress: 127.0.0.1}
YAML
}

kind_down() { kind delete cluster --quiet --name $KIND_CLUSTER; }
