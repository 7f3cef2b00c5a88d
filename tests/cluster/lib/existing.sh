# The cluster that $KUBECONFIG names: used as it is.
# shellcheck shell=bash

existing_up() {
  local flattened
  if names_another_cluster; then
    flattened=$("$(kubectl_binary)" config view --flatten --minify)
    cat <<< "$flattened" > "$STATE/kubeconfig"
    chmod 600 "$STATE/kubeconfig"
  fi
  kubectl get --raw /readyz > /dev/null || fail "the cluster that \$KUBECONFIG names does not respond"
  if kubectl get crd/tlscertificatedelegations.projectcontour.io > /dev/null 2>&1; then wildcard_certificate; fi
  ingress_answers || say "  nothing listens at http://127.0.0.1:$HTTP_PORT; forward the cluster's ingress there, for Contour with:
    kubectl --namespace projectcontour port-forward service/envoy $HTTP_PORT:80 $HTTPS_PORT:443"
}

names_another_cluster() { # $KUBECONFIG is set, and not to the file that `up` itself wrote
  [ -n "${KUBECONFIG:-}" ] && [ ! "$KUBECONFIG" -ef "$STATE/kubeconfig" ]
}
