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
{{ range .Values.exports }}
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
