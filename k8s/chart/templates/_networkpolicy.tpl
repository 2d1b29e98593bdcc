{{/* A NetworkPolicy up to its rules. Takes root, name and, where only one role's pods are meant, role. */}}
{{- define "canopy.policyHead" }}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}
  labels: {{- include "canopy.labels" .root | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "canopy.pods" .root | nindent 6 }}
      {{- with .role }}
      canopy-role: {{ . }}
      {{- end }}
{{- end }}
{{- define "canopy.namespace" -}}
namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ . }}}}
{{- end }}
{{- define "canopy.apiServerPorts" -}}
{{- range .Values.networkPolicy.apiServerPorts }}
- {port: {{ . }}}
{{- end }}
{{- end }}
