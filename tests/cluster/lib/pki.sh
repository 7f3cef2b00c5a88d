# Keys, certificates and kubeconfigs of the bare cluster. All are made once and kept with the cluster's state.
# shellcheck shell=bash

PKI=$STATE/pki

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

authority() { # name
  [ -f "$PKI/$1.crt" ] && return
  key "$PKI/$1.key"
  openssl req -x509 -new -key "$PKI/$1.key" -out "$PKI/$1.crt" -days 3650 -subj "/CN=$1"
}

certificate() { # name, subject, extension, authority (default: ca)
  local by=${4:-ca}
  [ -f "$PKI/$1.crt" ] && return
  key "$PKI/$1.key"
  openssl req -new -key "$PKI/$1.key" -subj "$2" |
    openssl x509 -req -CA "$PKI/$by.crt" -CAkey "$PKI/$by.key" -CAcreateserial -days 3650 \
      -extfile <(echo "$3") -out "$PKI/$1.crt.partial" 2> /dev/null
  mv "$PKI/$1.crt.partial" "$PKI/$1.crt"
}

kubeconfig() { # file, certificate of the user
  cat > "$1" << YAML
apiVersion: v1
kind: Config
clusters:
- name: isvc-operator
  cluster: {server: "https://127.0.0.1:6443", certificate-authority-data: $(base64 -w0 < "$PKI/ca.crt")}
users:
- name: $2
  user: {client-certificate-data: $(base64 -w0 < "$PKI/$2.crt"), client-key-data: $(base64 -w0 < "$PKI/$2.key")}
contexts:
- name: isvc-operator
  context: {cluster: isvc-operator, user: $2}
current-context: isvc-operator
YAML
}

make_pki() { # node address
  local client=extendedKeyUsage=clientAuth server=subjectAltName=IP:127.0.0.1,IP:$1 service=kubernetes.default.svc user
  mkdir -p "$PKI"
  authority ca
  authority front-proxy-ca
  [ -f "$PKI/service-account.key" ] || key "$PKI/service-account.key"
  certificate kube-apiserver /CN=kube-apiserver \
    "$server,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:$service,DNS:$service.cluster.local"
  certificate kubelet-server "/CN=$NODE" "$server,DNS:$NODE"
  certificate apiserver-kubelet-client /O=system:masters/CN=apiserver-kubelet-client $client
  certificate front-proxy-client /CN=front-proxy-client $client front-proxy-ca
  certificate admin /O=system:masters/CN=admin $client
  certificate kube-controller-manager /CN=system:kube-controller-manager $client
  certificate kube-scheduler /CN=system:kube-scheduler $client
  certificate kube-proxy /CN=system:kube-proxy $client
  certificate kubelet "/O=system:nodes/CN=system:node:$NODE" $client
  for user in kube-controller-manager kube-scheduler kube-proxy kubelet; do
    kubeconfig "$STATE/$user.kubeconfig" $user
  done
  kubeconfig "$STATE/kubeconfig" admin
  chmod -R go= "$PKI" "$STATE"/*kubeconfig
}
