output "name" {
  description = "Name of the cluster; known when its system nodes are there."
  value       = aws_eks_node_group.system.cluster_name
}

output "arn" {
  description = "ARN of the cluster."
  value       = aws_eks_cluster.this.arn
}

output "endpoint" {
  description = "URL of the Kubernetes API."
  value       = aws_eks_cluster.this.endpoint
}

output "security_group_id" {
  description = "Security group of control plane and nodes; machines that Karpenter makes belong to it."
  value       = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
}
