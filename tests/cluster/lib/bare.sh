# A single-node Kubernetes on this host, for Linux and root where no Docker runs: the control plane, kubelet, containerd,
# CoreDNS, Contour and Envoy as plain processes, all their state in .cluster/.
# shellcheck shell=bash

NODE=isvc-node
POD_CIDR=10.244.0.0/16
SERVICE_CIDR=10.96.0.0/16
DNS_SERVICE=10.96.0.10
CLAIMS=/var/lib/isvc-operator # as the volumes of examples/ and of the tests name it
CONTAINERD_SOCKET=$STATE/containerd.sock
CONTOUR_XDS_PORT=18001
ENVOY_STATS_PORT=18002
HOST_RULES=(
  # pods reach the outside world as this host
  "nat POSTROUTING -s $POD_CIDR ! -d $POD_CIDR -j MASQUERADE"
  # A Service's address is refused where it leads nowhere, also in the moment in which kube-proxy has taken away its own
  # refusal and has no way to the first pod yet: beyond this host someone might answer, on a connection that is then kept.
  "filter FORWARD -d $SERVICE_CIDR -j REJECT"
  "filter OUTPUT -d $SERVICE_CIDR -j REJECT"
)
DAEMONS=(envoy contour coredns kube-scheduler kube-controller-manager kubelet kube-proxy kube-apiserver etcd containerd)

bare_up() {
  local ip
  if bare_is_up; then return; fi
  require_host
  ip=$(node_ip)
  if [ ! -d "$STATE/run" ]; then require_ports; fi
  make_pki "$ip"
  control_plane "$ip"
  node "$ip"
  dns "$ip"
  ingress_objects
  bare_ingress
}

bare_is_up() {
  local name
  for name in "${DAEMONS[@]}"; do
    running "$name" || return 1
  done
  kubectl wait --for=condition=Ready node/$NODE --timeout=1s > /dev/null 2>&1 && envoy_is_ready
}

require_host() {
  [ "$(id -u)" = 0 ] || fail "a bare cluster needs root; as another user set \$KUBECONFIG, or install Docker and kind"
  require_programs containerd:containerd ctr:containerd runc:runc iptables:iptables ip:iproute2 conntrack:conntrack \
    openssl:openssl curl:curl "$(cni_plugins)/ptp:containernetworking-plugins"
}

cni_plugins() { # the folder of the CNI plugins: Debian's, else everyone else's
  if [ -d /opt/cni/bin ]; then echo /opt/cni/bin; else echo /usr/lib/cni; fi
}

node_ip() { # the address that the certificates name, chosen at the first `up`
  local ip
  if [ ! -f "$STATE/node-ip" ]; then
    ip=$(ip -4 -o route get 192.0.2.1 | sed -n 's/.* src \([^ ]*\).*/\1/p')
    [ -n "$ip" ] || fail "this host has no IPv4 address that pods could reach; give it one and run this again"
    echo "$ip" > "$STATE/node-ip"
  fi
  ip=$(cat "$STATE/node-ip")
  [ -n "$(ip -4 -o addr show to "$ip")" ] || fail "this host has lost the address $ip; run 'make cluster-down' first"
  echo "$ip"
}

require_ports() { # nobody else may listen where the cluster's programs will
  local port owner
  for port in 2379 2380 6443 10250 10256 10257 10259 "$CONTOUR_XDS_PORT" "$HTTP_PORT" "$HTTPS_PORT"; do
    owner=$(ss -Hltnp "sport = :$port" | sed -n 's/.*users:(("\([^"]*\)",pid=\([0-9]*\).*/\1 (pid \2)/p;q')
    [ -z "$owner" ] || fail "port $port is taken by $owner; is a cluster of another checkout running? Run 'make cluster-down' there"
  done
}

control_plane() { # node address
  daemon etcd "$(binary etcd)" --data-dir="$STATE/etcd" --unsafe-no-fsync --log-level=warn \
    --listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379 \
    --listen-peer-urls=http://127.0.0.1:2380
  daemon kube-apiserver "$(binary kube-apiserver)" --etcd-servers=http://127.0.0.1:2379 \
    --advertise-address="$1" --secure-port=6443 --service-cluster-ip-range=$SERVICE_CIDR \
    --client-ca-file="$PKI/ca.crt" --tls-cert-file="$PKI/kube-apiserver.crt" --tls-private-key-file="$PKI/kube-apiserver.key" \
    --service-account-issuer=https://kubernetes.default.svc.cluster.local \
    --service-account-key-file="$PKI/service-account.key" --service-account-signing-key-file="$PKI/service-account.key" \
    --audit-policy-file="$ROOT/tests/cluster/lib/audit-policy.yaml" --audit-log-path="$STATE/log/audit.jsonl" --audit-log-maxsize=100 \
    --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
    --kubelet-client-certificate="$PKI/apiserver-kubelet-client.crt" \
    --kubelet-client-key="$PKI/apiserver-kubelet-client.key" \
    --kubelet-certificate-authority="$PKI/ca.crt" --kubelet-preferred-address-types=InternalIP \
    --requestheader-client-ca-file="$PKI/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy-client \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file="$PKI/front-proxy-client.crt" --proxy-client-key-file="$PKI/front-proxy-client.key"
  wait_for 60 "the API server" kubectl get --raw /readyz
  daemon kube-controller-manager "$(binary kube-controller-manager)" --kubeconfig="$STATE/kube-controller-manager.kubeconfig" \
    --service-account-private-key-file="$PKI/service-account.key" --root-ca-file="$PKI/ca.crt" \
    --use-service-account-credentials --allocate-node-cidrs --cluster-cidr=$POD_CIDR --leader-elect=false \
    --cluster-signing-cert-file="$PKI/ca.crt" --cluster-signing-key-file="$PKI/ca.key" \
    --kube-api-qps=200 --kube-api-burst=400
  daemon kube-scheduler "$(binary kube-scheduler)" --kubeconfig="$STATE/kube-scheduler.kubeconfig" --leader-elect=false
}

node() { # node address
  containerd_config > "$STATE/containerd.toml"
  kubelet_config > "$STATE/kubelet.yaml"
  mkdir -p "$STATE/cni"
  cni_config > "$STATE/cni/10-pods.conflist"
  sysctl -qw net.ipv4.ip_forward=1
  add_rules

  containerd_up # first, as a kubelet that finds no container runtime exits
  [ -n "$(node_ctr images ls -q "name==localhost/pause:1")" ] || scratch_image localhost/pause:1 "$(binary pause)" | node_ctr images import - > /dev/null
  daemon kubelet "$(binary kubelet)" --kubeconfig="$STATE/kubelet.kubeconfig" --config="$STATE/kubelet.yaml" \
    --hostname-override=$NODE --node-ip="$1" --root-dir="$STATE/kubelet"
  # the default waits a second between two updates of the rules: a second in which a ready pod gets no traffic
  daemon kube-proxy "$(binary kube-proxy)" --kubeconfig="$STATE/kube-proxy.kubeconfig" --hostname-override=$NODE \
    --proxy-mode=iptables --cluster-cidr=$POD_CIDR --conntrack-max-per-core=0 --iptables-min-sync-period=100ms
  wait_for 60 "the node to be Ready" kubectl wait --for=condition=Ready node/$NODE --timeout=1s
}

containerd_up() {
  daemon containerd containerd --config "$STATE/containerd.toml"
  wait_for 30 containerd node_ctr version
}

node_ctr() { ctr --address "$CONTAINERD_SOCKET" --namespace k8s.io "$@"; }

add_rules() {
  local rule
  for rule in "${HOST_RULES[@]}"; do
    # shellcheck disable=SC2086
    host_rule -C $rule 2> /dev/null || host_rule -A $rule
  done
}

host_rule() { # -A, -C or -D, then one of HOST_RULES, in words
  local action=$1 table=$2 chain=$3
  iptables -w -t "$table" "$action" "$chain" "${@:4}" -m comment --comment "isvc-operator"
}

containerd_config() {
  # restrict_oom_score_adj: a host without CAP_SYS_RESOURCE could start no sandbox otherwise
  cat << TOML
version = 2
root = "$STATE/containerd/root"
state = "$STATE/containerd/state"
[grpc]
  address = "$CONTAINERD_SOCKET"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$(cni_plugins)"
    conf_dir = "$STATE/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
TOML
}

cni_config() { # a routed link for each pod: needs no bridge, nor netfilter on one
  cat << JSON
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "ptp", "ipam": {"type": "host-local", "dataDir": "$STATE/cni/addresses",
    "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}
]}
JSON
}

kubelet_config() {
  cat << YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $PKI/kubelet-server.crt
tlsPrivateKeyFile: $PKI/kubelet-server.key
containerRuntimeEndpoint: unix://$CONTAINERD_SOCKET
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
clusterDNS: [$DNS_SERVICE]
clusterDomain: cluster.local
podLogsDir: $STATE/log/pods
volumePluginDir: $STATE/kubelet/volume-plugins
maxPods: 200
# kube-proxy makes all the chains that are needed
makeIPTablesUtilChains: false
# images are brought here by hand and cannot be pulled again: never collect them
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi}
# pods start as fast as the host can
serializeImagePulls: false
kubeAPIQPS: 200
kubeAPIBurst: 400
YAML
}

dns() { # node address: CoreDNS on this host, behind the usual Service
  cat > "$STATE/Corefile" << COREFILE
.:10053 {
  bind $1
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $STATE/kubeconfig
    ttl 5
  }
  forward . /etc/resolv.conf
  cache 5
}
COREFILE
  daemon coredns "$(binary coredns)" -conf "$STATE/Corefile"
  dns_service "$1" | apply
  wait_for 30 "CoreDNS" answers_dns
}

dns_service() { # node address
  cat << YAML
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system, labels: {k8s-app: kube-dns}}
spec:
  clusterIP: $DNS_SERVICE
  ports:
  - {name: dns, port: 53, protocol: UDP, targetPort: 10053}
  - {name: dns-tcp, port: 53, protocol: TCP, targetPort: 10053}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
endpoints: [{addresses: [$1], conditions: {ready: true}}]
ports: [{name: dns, port: 10053, protocol: UDP}, {name: dns-tcp, port: 10053, protocol: TCP}]
YAML
}

answers_dns() { # asked as a pod would, through the Service
  python3 - << PYTHON
import socket
query = b"\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + b"".join(
    bytes([len(label)]) + label for label in b"kubernetes default svc cluster local".split()) + b"\x00\x00\x01\x00\x01"
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
    client.settimeout(1)
    client.sendto(query, ("$DNS_SERVICE", 53))
    assert client.recv(512).endswith(socket.inet_aton("10.96.0.1"))
PYTHON
}

ingress_objects() { # what Contour reads; its listeners are those of the Gateway, if that is there first
  apply < "$(contour_examples)/01-crds.yaml"
  # kubectl calls a CRD that has no conditions yet an error, so one wait of its own is not enough
  wait_for 30 "Contour's CRDs" kubectl wait --for=condition=Established crd/tlscertificatedelegations.projectcontour.io --timeout=1s
  gateway_api "$(gateway_api_crds)"
  ingress_class
  wildcard_certificate
  gateway
}

bare_ingress() { # Contour and Envoy on this host; they reach the pods directly
  local contour
  contour=$(binary contour)
  cat > "$STATE/contour.yaml" << YAML
ingress-status-address: 127.0.0.1
accesslog-format: json
gateway: {gatewayRef: {namespace: $CONTOUR_NAMESPACE, name: contour}}
YAML
  daemon contour "$contour" serve --kubeconfig="$STATE/kubeconfig" --config-path="$STATE/contour.yaml" \
    --disable-feature=tlsroutes --disable-feature=tcproutes --disable-feature=backendtlspolicies \
    --insecure --disable-leader-election --xds-address=127.0.0.1 --xds-port=$CONTOUR_XDS_PORT \
    --http-address=127.0.0.1 --http-port=18000 --debug-http-address=127.0.0.1 --debug-http-port=16060 \
    --envoy-service-http-address=127.0.0.1 --envoy-service-http-port=$HTTP_PORT \
    --envoy-service-https-address=127.0.0.1 --envoy-service-https-port=$HTTPS_PORT \
    --stats-address=127.0.0.1 --stats-port=$ENVOY_STATS_PORT
  "$contour" bootstrap "$STATE/envoy.json" --xds-address=127.0.0.1 --xds-port=$CONTOUR_XDS_PORT \
    --admin-address="$STATE/envoy-admin.sock" 2> /dev/null
  daemon envoy "$(envoy)" --config-path "$STATE/envoy.json" --service-cluster contour --service-node envoy \
    --log-level warn --disable-hot-restart
  # the ports themselves open with the first Ingress
  wait_for 30 "Contour and Envoy" envoy_is_ready
}

envoy_is_ready() { curl --fail --silent "http://127.0.0.1:$ENVOY_STATS_PORT/ready" > /dev/null; }

bare_down() {
  if running kube-apiserver && running kubelet; then
    stop kube-scheduler kube-controller-manager # or they would start the pods anew
    kubectl delete pods --all --all-namespaces --grace-period=1 --timeout=30s > /dev/null 2>&1 || true
  fi
  stop kubelet
  if [ -S "$CONTAINERD_SOCKET" ]; then end_containers; fi
  if running kube-proxy; then
    stop kube-proxy
    "$(binary kube-proxy)" --cleanup 2> /dev/null || true
  fi
  stop "${DAEMONS[@]}"
  remove_rules 2> /dev/null
  awk -v state="$STATE/" 'index($2, state) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount
  # whoever has filled the claims may want the models again
  if [ -d "$CLAIMS" ]; then say "  what was copied to claims stays in $CLAIMS"; fi
}

remove_rules() { # ours, and those of kube-proxy that its --cleanup leaves to the kubelet, which never removes any
  local rule
  for rule in "${HOST_RULES[@]}"; do
    # shellcheck disable=SC2086
    while host_rule -D $rule; do :; done
  done
  iptables -w -D INPUT -j KUBE-FIREWALL && iptables -w -D OUTPUT -j KUBE-FIREWALL || true
  iptables -w -F KUBE-FIREWALL && iptables -w -X KUBE-FIREWALL || true
}

end_containers() { # those that the kubelet left behind; they outlive a containerd that has died
  local id
  containerd_up
  for id in $(node_ctr tasks ls -q); do
    node_ctr tasks delete --force "$id" > /dev/null 2>&1 || true
  done
}
