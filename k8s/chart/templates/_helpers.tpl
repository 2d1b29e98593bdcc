{{- define "canopy.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Of pods: nothing that changes with the chart's version, or every release would replace the Ray cluster. */}}
{{- define "canopy.podLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "canopy.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* All pods of this release, whatever Ray cluster they belong to. */}}
{{- define "canopy.pods" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "canopy.keysSecret" -}}
{{- if .Values.apiKeys.existingSecret -}}
{{ .Values.apiKeys.existingSecret }}
{{- else if .Values.apiKeys.keys -}}
{{ .Release.Name }}-api-keys
{{- end -}}
{{- end }}

{{/* Where the service's metrics are: one replica per pod, so one port per role. */}}
{{- define "canopy.metricsPort" -}}
{{- get (dict "router" 9101 "verifier" 9102 "drafter" 9103) . -}}
{{- end }}

{{/* Enabled groups, by name. */}}
{{- define "canopy.groups" -}}
{{- $enabled := dict -}}
{{- range $name, $group := .Values.groups -}}
{{- if $group.enabled -}}
{{- $_ := set $enabled $name $group -}}
{{- end -}}
{{- end -}}
{{- toYaml $enabled -}}
{{- end }}

{{/* GPUs of a role's pods, which all its groups share. */}}
{{- define "canopy.gpus" -}}
{{- $gpus := list -}}
{{- range $name, $group := include "canopy.groups" .root | fromYaml -}}
{{- if eq $group.role $.role -}}
{{- $gpus = append $gpus (int $group.gpus) -}}
{{- end -}}
{{- end -}}
{{- if gt (len (uniq $gpus)) 1 -}}
{{- fail (printf "the groups of role %s must have the same number of gpus" .role) -}}
{{- end -}}
{{- first (append $gpus 0) -}}
{{- end }}
