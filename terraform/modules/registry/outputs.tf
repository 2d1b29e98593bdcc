output "urls" {
  description = "Repository name -> URL that images are pushed to and pulled from."
  value       = { for name, repository in aws_ecr_repository.this : name => repository.repository_url }
}

output "arns" {
  description = "ARNs of the repositories."
  value       = [for repository in aws_ecr_repository.this : repository.arn]
}
