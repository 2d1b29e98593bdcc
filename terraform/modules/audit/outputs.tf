output "trail_arn" {
  description = "ARN of the trail; null without."
  value       = one(aws_cloudtrail.this[*].arn)
}
