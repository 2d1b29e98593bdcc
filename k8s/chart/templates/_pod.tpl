{{/*
The template of a pod. Takes root, name of the group, role, group (gpus, resources, ...) and, of a worker,
drainSeconds. Root file systems are read-only: what is written goes to /tmp, shared memory and the cache.
*/}}
{{- define "canopy.pod" -}}
{{- $root := .root -}}
{{- $group := .group -}}
{{- $worker := ne .role "head" -}}
{{- $keys := and (eq .role "router") (include "canopy.keysSecret" $root) -}}
metadata:
  labels:
    {{- include "canopy.podLabels" $root | nindent 4 }}
    canopy-role: {{ .role }}
    canopy-group: {{ .name }}
  {{- if or $group.doNotDisrupt (not $worker) }}
  annotations:
    {{- if $group.doNotDisrupt }}
    karpenter.sh/do-not-disrupt: "true"
    {{- end }}
    {{- if not $worker }}
    # KubeRay brings up a new Ray cluster when a pod's template changes, not for a change of the Serve config alone: that
    # one is applied to the running cluster, whose verifiers would then be of two models for a while.
    canopy-settings: {{ include "canopy.settings" $root | sha256sum }}
    {{- end }}
  {{- end }}
spec:
  serviceAccountName: {{ $root.Release.Name }}-{{ .role }}
  {{- if $worker }}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {{ include "canopy.gracePeriod" . }}
  {{- else }}
  terminationGracePeriodSeconds: 60
  {{- end }}
  # A Service named like the release would put CANOPY_... variables into every process.
  enableServiceLinks: false
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{- include "canopy.podSecurity" . | nindent 4 }}
  {{- with $group.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $group.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  affinity:
    podAffinity:
      # Steps and streams cross between pods all the time: one zone while it has room, and no charge for traffic.
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 100
          podAffinityTerm:
            topologyKey: topology.kubernetes.io/zone
            labelSelector:
              matchLabels: {{- include "canopy.pods" $root | nindent 16 }}
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 50
          podAffinityTerm:
            topologyKey: kubernetes.io/hostname
            labelSelector:
              matchLabels:
                {{- include "canopy.pods" $root | nindent 16 }}
                canopy-role: {{ .role }}
  containers:
    - name: {{ $worker | ternary "ray-worker" "ray-head" }}
      image: {{ include "canopy.image" $root }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      ports:
        {{- if not $worker }}
        - {name: gcs, containerPort: 6379}
        - {name: dashboard, containerPort: 8265}
        {{- else }}
        - {name: app-metrics, containerPort: {{ include "canopy.metricsPort" .role }}}
        {{- end }}
        - {name: serve, containerPort: 8000}
        - {name: metrics, containerPort: 8080}
      {{- if $worker }}
      env:
        - {name: RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S, value: {{ $group.drainSeconds | quote }}}
      lifecycle:
        preStop:
          sleep: {seconds: {{ $root.Values.preStopSeconds }}}
      {{- end }}
      resources:
        {{- include "canopy.resources" $group | nindent 8 }}
      securityContext: {{- include "canopy.containerSecurity" . | nindent 8 }}
      {{- if $worker }}
      readinessProbe:
        httpGet: {path: /-/healthz, port: serve}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 3
      livenessProbe:
        httpGet: {path: /api/local_raylet_healthz, port: 52365}
        initialDelaySeconds: 30
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 12
      {{- else }}
      readinessProbe:
        httpGet: {path: /api/gcs_healthz, port: dashboard}
        initialDelaySeconds: 10
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 10
      livenessProbe:
        httpGet: {path: /api/gcs_healthz, port: dashboard}
        initialDelaySeconds: 30
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 12
      {{- end }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: shared-mem, mountPath: /dev/shm}
        - {name: cache, mountPath: /var/cache/canopy}
        {{- if $keys }}
        - {name: api-keys, mountPath: /etc/canopy/api-keys, readOnly: true}
        {{- end }}
  volumes:
    - {name: tmp, emptyDir: {sizeLimit: 10Gi}}
    - {name: shared-mem, emptyDir: {medium: Memory, sizeLimit: {{ $group.sharedMemory }}}}
    - {name: cache, emptyDir: {sizeLimit: {{ $group.cache }}}}
    {{- if $keys }}
    - name: api-keys
      secret: {secretName: {{ include "canopy.keysSecret" $root }}, defaultMode: 0440}
    {{- end }}
{{- end }}

{{- define "canopy.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "canopy.containerSecurity" -}}
readOnlyRootFilesystem: true
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
{{- end }}

{{- define "canopy.resources" -}}
requests: {{- toYaml .resources.requests | nindent 2 }}
  {{- if .gpus }}
  nvidia.com/gpu: {{ .gpus }}
  {{- end }}
limits: {{- toYaml .resources.limits | nindent 2 }}
  {{- if .gpus }}
  nvidia.com/gpu: {{ .gpus }}
  {{- end }}
{{- end }}

{{/* Seconds until SIGKILL: leave the Service, drain, and end Ray's processes. A spot notice is 120 s. */}}
{{- define "canopy.gracePeriod" -}}
{{- $drain := int .group.drainSeconds -}}
{{- if lt $drain (int .root.Values.replicaShutdownSeconds) -}}
{{- fail (printf "groups.%s.drainSeconds must be at least replicaShutdownSeconds" .name) -}}
{{- end -}}
{{- add (int .root.Values.preStopSeconds) $drain 25 -}}
{{- end }}
