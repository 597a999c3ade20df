{{- define "pgcursus.name" -}}
{{ .Release.Name | trunc 53 | trimSuffix "-" }}-pgcursus
{{- end }}

{{- define "pgcursus.selector" -}}
app.kubernetes.io/name: pgcursus
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pgcursus.labels" -}}
{{ include "pgcursus.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}
