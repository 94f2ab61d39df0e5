{{- define "forebay.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "forebay.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "forebay.labels" -}}
{{ include "forebay.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{/* A table's settings as TOML: texts, numbers, booleans and lists of these are written as in JSON. */}}
{{- define "forebay.settings" -}}
{{- range $key, $value := . }}
{{ $key }} = {{ if kindIs "float64" $value }}{{ int64 $value }}{{ else }}{{ $value | toRawJson }}{{ end }}
{{- end -}}
{{- end -}}

{{/* The cmsd of all redirectors as a list in TOML; nothing if there are none. */}}
{{- define "forebay.managers" -}}
{{- $managers := .Values.cluster.managers -}}
{{- $name := include "forebay.fullname" . -}}
{{- range $index := until (int .Values.cluster.redirectors.replicas) -}}
{{- $managers = append $managers (printf "%s-redirector-%d.%s-redirectors.%s.svc:1213" $name $index $name $.Release.Namespace) -}}
{{- end -}}
{{- if $managers -}}{{ $managers | toRawJson }}{{- end -}}
{{- end -}}

{{- define "forebay.configuration" -}}
[server]
listen = ["[::]:1094"]

[store]
path = "/var/cache/forebay/store"

[memory]
budget = {{ .Values.memoryBudget | toJson }}

[purge]
high = {{ .Values.store.high | toJson }}
low = {{ .Values.store.low | toJson }}

[admin]
listen = "[::]:9090"
socket = "/run/forebay/admin.sock"
{{ with include "forebay.managers" . }}
[cluster]
managers = {{ . }}
discover = "{{ include "forebay.fullname" $ }}-caches.{{ $.Release.Namespace }}.svc:1094"
{{ end }}{{ range .Values.exports }}
[[export]]
{{- include "forebay.settings" . }}
{{ end }}
{{- with .Values.forwarding }}
[forwarding]
{{- include "forebay.settings" . }}
{{ end }}
{{- with .Values.extraConfiguration }}
{{ . }}
{{- end }}
{{- end -}}

{{- define "forebay.redirector.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 52 | trimSuffix "-" }}-redirector
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "forebay.redirector.labels" -}}
{{ include "forebay.redirector.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{/* As docs/scale-out.md explains. Each pod is one redirector, whose two programs find each other on the loopback. */}}
{{- define "forebay.redirector" -}}
all.role manager
all.manager localhost:1213
{{- range .Values.exports }}
all.export {{ .path }} stage r/o
{{- end }}
{{- if .Values.forwarding }}
all.export / stage r/o
{{- end }}
all.adminpath /var/spool/xrootd
all.pidpath /var/spool/xrootd
if exec cmsd
xrd.port 1213
else
xrd.port 1094
fi
cms.delay startup 5 lookup 1 hold 500 service 1 servers 1 drop 2m suspend 3
cms.fxhold noloc 60s 8h
cms.ping 10 usage 3
{{- end -}}
