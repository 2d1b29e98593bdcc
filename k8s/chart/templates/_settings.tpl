{{/*
The service's settings: the release's own, and what the chart decides so that they fit the pods. A pod is a Ray node
with one CPU, of which a replica takes most: there is one replica in each pod.
*/}}
{{- define "canopy.settings" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- $replicas := $settings.replicas | default dict -}}
{{- range $name := list "routers" "verifiers" "drafters" -}}
{{- if hasKey $replicas $name -}}{{- fail (printf "settings.replicas.%s is set by the chart: use autoscaling.%s" $name $name) -}}{{- end -}}
{{- end -}}
{{- if hasKey $settings "autoscaling" -}}{{- fail "settings.autoscaling is set by the chart: use autoscaling" -}}{{- end -}}
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
{{- /* What routers must know: that there being no verifier is in order. */ -}}
{{- if not (int .Values.autoscaling.verifiers.min) -}}
{{- $_ := set $replicas "verifiers" 0 -}}
{{- $_ := set $settings "autoscaling" (dict "max_verifiers" (int .Values.autoscaling.verifiers.max)) -}}
{{- end -}}
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
{{- $bounds := index .root.Values.autoscaling .role -}}
{{- if lt (int $bounds.max) (int $bounds.min) -}}
{{- fail (printf "autoscaling.%s.max must not be less than .min" .role) -}}
{{- end -}}
{{- range .root.Values.autoscaling.triggers.hours -}}
{{- if gt (int (index . $.role | default 0)) (int $bounds.max) -}}
{{- fail (printf "autoscaling.triggers.hours ask for more %s than autoscaling.%s.max" $.role $.role) -}}
{{- end -}}
{{- end -}}
min_replicas: {{ $bounds.min }}
max_replicas: {{ $bounds.max }}
{{- with $bounds.ongoingRequests }}
target_ongoing_requests: {{ . }}
{{- end }}
upscale_delay_s: {{ .root.Values.autoscaling.upscaleDelaySeconds }}
downscale_delay_s: {{ .root.Values.autoscaling.downscaleDelaySeconds }}
downscaling_factor: 0.5
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
    autoscaling_policy:
      policy_function: serving.replicas.scaling:JointScaling
      policy_kwargs:
        {{- toYaml .Values.autoscaling.triggers | nindent 8 }}
    deployments:
      - name: Router
        graceful_shutdown_timeout_s: {{ .Values.replicaShutdownSeconds }}
        autoscaling_config:
          {{- include "canopy.autoscaling" (dict "root" . "role" "routers") | nindent 10 }}
      - name: Verifier
        autoscaling_config:
          {{- include "canopy.autoscaling" (dict "root" . "role" "verifiers") | nindent 10 }}
      {{- $speculation := .Values.settings.speculation | default dict }}
      {{- if and (ne ($speculation.placement | default "pool") "colocated") (ne ($speculation.method | default "auto") "off") }}
      - name: DrafterPool
        autoscaling_config:
          {{- include "canopy.autoscaling" (dict "root" . "role" "drafters") | nindent 10 }}
      {{- end }}
{{- end }}
