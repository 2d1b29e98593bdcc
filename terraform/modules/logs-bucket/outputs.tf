output "name" {
  description = "Name of the bucket. Usable only when its policy is in place, so that the first delivery is let in."
  value       = aws_s3_bucket_policy.this.bucket
}
