output "arns" {
  description = "Alarm -> ARN, for dashboards and deployments that roll back on them."
  value       = { for name, alarm in aws_cloudwatch_metric_alarm.this : name => alarm.arn }
}
