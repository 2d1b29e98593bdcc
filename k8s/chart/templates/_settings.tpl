{{/*
The service's settings: the release's own, and what the chart decides so that they fit the pods. A pod is a Ray node
with one CPU, of which a replica takes most: there is one replica in each pod.
*/}}
{{- define "canopy.settings" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- $replicas := $settings.replicas | default dict -}}
{{- range $name := list "pin_to_roles" "router_cpus" "verifier_cpus" "drafter_cpus" "verifier_gpus" "drafter_gpus" "router_metrics_port" "verifier_metrics_port" "drafter_metrics_port" -}}
{{- if hasKey $replicas $name -}}{{- fail (printf "settings.replicas.%s is set by the chart" $name) -}}{{- end -}}
{{- end -}}
{{- $router := $settings.router | default dict -}}
{{- range $name := list "api_keys" "api_keys_file" -}}
{{- if hasKey $router $name -}}{{- fail (printf "settings.router.%s is set by the chart: use apiKeys" $name) -}}{{- end -}}
{{- end -}}
{{- if hasKey $settings "metrics_dir" -}}{{- fail "settings.metrics_dir is set by the service" -}}{{- end -}}
{{- range $role := list "router" "verifier" "drafter" -}}
{{- $_ := set $replicas (printf "%s_metrics_port" $role) (include "canopy.metricsPort" $role | int) -}}
{{- end -}}
{{- $ranks := int (($settings.engine | default dict).tensor_parallel_size | default 1) -}}
{{- $gpus := include "canopy.gpus" (dict "root" . "role" "verifier") | int -}}
{{- if and $gpus (ne $gpus $ranks) -}}
{{- fail (printf "a verifier's pod has %d gpus, but settings.engine.tensor_parallel_size is %d" $gpus $ranks) -}}
{{- end -}}
{{- $_ := set $replicas "pin_to_roles" true -}}
{{- $_ := set $replicas "router_cpus" 0.9 -}}
{{- $_ := set $replicas "drafter_cpus" 0.9 -}}
{{- $_ := set $replicas "drafter_gpus" (include "canopy.gpus" (dict "root" . "role" "drafter") | int) -}}
{{- /* Of each rank. */ -}}
{{- $_ := set $replicas "verifier_cpus" (divf 0.9 $ranks) -}}
{{- $_ := set $replicas "verifier_gpus" (min $gpus 1) -}}
{{- $_ := set $settings "replicas" $replicas -}}
{{- if include "canopy.keysSecret" . -}}
{{- $_ := set $router "api_keys_file" "/etc/canopy/api-keys/keys" -}}
{{- $_ := set $settings "router" $router -}}
{{- else if not .Values.apiKeys.allowAnonymous -}}
{{- fail "name apiKeys.existingSecret, or say apiKeys.allowAnonymous: true" -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end }}

{{- define "canopy.autoscaling" -}}
min_replicas: {{ .bounds.min }}
max_replicas: {{ .bounds.max }}
target_ongoing_requests: {{ .bounds.ongoingRequests }}
upscale_delay_s: {{ .root.Values.autoscaling.upscaleDelaySeconds }}
downscale_delay_s: {{ .root.Values.autoscaling.downscaleDelaySeconds }}
{{- end }}

{{/* A Serve config file, as `serve deploy` takes it; deploy/eks.yaml is one. */}}
{{- define "canopy.serveConfig" -}}
proxy_location: EveryNode
http_options:
  host: 0.0.0.0
  port: 8000
applications:
  - name: canopy
    route_prefix: /
    import_path: serving.app:build
    args:
      {{- include "canopy.settings" . | nindent 6 }}
    deployments:
      - name: Router
        graceful_shutdown_timeout_s: {{ .Values.replicaShutdownSeconds }}
        autoscaling_config:
          {{- include "canopy.autoscaling" (dict "root" . "bounds" .Values.autoscaling.routers) | nindent 10 }}
      - name: Verifier
        graceful_shutdown_timeout_s: {{ .Values.replicaShutdownSeconds }}
        autoscaling_config:
          {{- include "canopy.autoscaling" (dict "root" . "bounds" .Values.autoscaling.verifiers) | nindent 10 }}
{{- end }}
