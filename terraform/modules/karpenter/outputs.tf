output "instance_profile" {
  description = "Instance profile for EC2NodeClass.spec.instanceProfile."
  value       = aws_iam_instance_profile.node.name
}

output "controller_role_arn" {
  description = "Role of Karpenter's controller."
  value       = module.controller.role_arn
}
