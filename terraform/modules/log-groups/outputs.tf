output "detailed" {
  description = "The group of lines about single requests: name and arn."
  value       = { name = aws_cloudwatch_log_group.detailed.name, arn = aws_cloudwatch_log_group.detailed.arn }
}

output "aggregated" {
  description = "The group of lines about minutes: name and arn."
  value       = { name = aws_cloudwatch_log_group.aggregated.name, arn = aws_cloudwatch_log_group.aggregated.arn }
}
