{{- define "heliostat.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "heliostat.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "heliostat.file" -}}
{{- if .Values.config }}{{ toYaml .Values.config }}
{{- else }}{{ .Files.Get "heliostat.yaml" }}
{{- end }}
{{- end }}

{{- define "heliostat.healthPort" -}}
{{- $config := include "heliostat.file" . | fromYaml }}
{{- $health := dig "service" "health" "" $config }}
{{- if not $health }}{{ fail "config.service.health is needed for probes, such as 0.0.0.0:8084" }}{{ end }}
{{- regexFind "[0-9]+$" $health }}
{{- end }}
