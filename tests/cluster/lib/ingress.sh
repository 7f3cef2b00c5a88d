# What every cluster of ours offers at its ingress: a default class, and a certificate that any namespace may use.
# shellcheck shell=bash

CONTOUR_NAMESPACE=projectcontour
CERTIFICATE=isvc-wildcard

contour_examples() { # the manifests of the Contour that we build
  echo "$(module_dir contour github.com/projectcontour/contour)/examples/contour"
}

gateway_api_crds() { # the folder of the standard CRDs, of the version that this Contour supports
  echo "$(module_dir contour sigs.k8s.io/gateway-api)/config/crd/standard"
}

gateway_api() { # file or folder: a Contour with a Gateway ends where a CRD that it watches is missing
  kubectl apply --server-side --force-conflicts --filename "$1" > /dev/null
  wait_for 30 "the Gateway API" kubectl wait --for=condition=Established --filename "$1" --timeout=1s
}

ingress_class() { # the one that an Ingress without a class gets
  apply << YAML
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata:
  name: contour
  annotations: {ingressclass.kubernetes.io/is-default-class: "true"}
spec: {controller: projectcontour.io/ingress-controller}
YAML
}

wildcard_certificate() { # a self-signed one, lent to all namespaces; an Ingress takes it as ../README.md shows
  local pem=$STATE/wildcard
  if [ ! -f "$pem.crt" ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 3650 -subj '/CN=*.example.com' \
      -addext 'subjectAltName=DNS:*.example.com,DNS:*.default.example.com' -keyout "$pem.key" -out "$pem.crt" 2> /dev/null
  fi
  apply << YAML
apiVersion: v1
kind: Namespace
metadata: {name: $CONTOUR_NAMESPACE}
---
apiVersion: v1
kind: Secret
metadata: {name: $CERTIFICATE, namespace: $CONTOUR_NAMESPACE}
type: kubernetes.io/tls
data: {tls.crt: $(base64 < "$pem.crt" | tr -d '\n'), tls.key: $(base64 < "$pem.key" | tr -d '\n')}
---
apiVersion: projectcontour.io/v1
kind: TLSCertificateDelegation
metadata: {name: $CERTIFICATE, namespace: $CONTOUR_NAMESPACE}
spec: {delegations: [{secretName: $CERTIFICATE, targetNamespaces: ["*"]}]}
YAML
}

gateway() { # what HTTPRoutes attach to, on the ports and with the certificate of the Ingresses; Contour's port is 8000 higher
  apply << YAML
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: contour}
spec: {controllerName: projectcontour.io/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: contour, namespace: $CONTOUR_NAMESPACE}
spec:
  gatewayClassName: contour
  listeners:
  - {name: http, protocol: HTTP, port: $((HTTP_PORT - 8000)), allowedRoutes: {namespaces: {from: All}}}
  - name: https
    protocol: HTTPS
    port: $((HTTPS_PORT - 8000))
    allowedRoutes: {namespaces: {from: All}}
    tls: {certificateRefs: [{name: $CERTIFICATE}]}
YAML
}

ingress_answers() { # any HTTP answer will do: without a route it is 404
  curl --silent --output /dev/null --max-time 2 "http://127.0.0.1:$HTTP_PORT/"
}
