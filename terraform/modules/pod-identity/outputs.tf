output "role_arn" {
  description = "ARN of the role; known when the association is there."
  value       = aws_eks_pod_identity_association.this.role_arn
}
