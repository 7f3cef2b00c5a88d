{{- /* The templates take the objects of the project's manifests, in files/, and put the values in. */}}

{{- /* The text of a manifest with the images of the values. Argument: the root and a path in files/. */}}
{{- define "isvc-operator.manifest" -}}
{{- $root := first . }}
{{- $image := $root.Values.image }}
{{- $common := $image.tag | default $root.Chart.AppVersion }}
{{- $ours := printf "%s/${1}:%s" $image.registry $common }}
{{- $text := regexReplaceAll "localhost/isvc-operator/([a-z-]+):[0-9][0-9A-Za-z.]*" ($root.Files.Get (print "files/" (last .))) $ours }}
{{- range $name, $tag := $image.tags }}
{{- $named := printf "%s/%s:" $image.registry $name }}
{{- $text = replace (print $named $common) (print $named $tag) $text }}
{{- end }}
{{- $text }}
{{- end }}

{{- /* An object of our own, in a namespace ("" for none). Argument: the object and the namespace. */}}
{{- define "isvc-operator.object" -}}
{{- $object := first . }}
{{- $labels := merge (dict "app.kubernetes.io/part-of" "isvc-operator") ($object.metadata.labels | default dict) }}
{{- $_ := set $object.metadata "labels" $labels }}
{{- with last . }}{{ $_ := set $object.metadata "namespace" . }}{{ end }}
---
{{ toYaml $object }}
{{- end }}

{{- /* A role of base/rbac.yaml. Argument: the root, its name, and its namespace; "" makes it a ClusterRole. */}}
{{- define "isvc-operator.role" -}}
{{- $root := index . 0 }}{{ $name := index . 1 }}{{ $namespace := index . 2 }}
{{- range splitList "---\n" ($root.Files.Get "files/base/rbac.yaml") }}
{{- $object := fromYaml . }}
{{- if and (eq $object.kind "ClusterRole") (eq $object.metadata.name $name) }}
{{- $_ := set $object "kind" (ternary "Role" "ClusterRole" (ne $namespace "")) }}
{{ include "isvc-operator.object" (list $object $namespace) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The binding of a role to the operator. Argument: the root, the kind and the name of the role, and the namespace
     in which it is granted; "" is the whole cluster. */}}
{{- define "isvc-operator.binding" -}}
{{- $root := index . 0 }}{{ $kind := index . 1 }}{{ $name := index . 2 }}{{ $namespace := index . 3 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (ne $namespace "") }}
metadata:
  name: {{ $name }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    app.kubernetes.io/part-of: isvc-operator
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: isvc-operator
    namespace: {{ $root.Release.Namespace }}
{{- end }}
