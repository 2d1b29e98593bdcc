variable "cluster" {
  description = "EKS cluster: name and ARN."
  type        = object({ name = string, arn = string })
}

variable "region" {
  description = "Region, for ARNs."
  type        = string
}

variable "account_id" {
  description = "Account, for ARNs."
  type        = string
}

variable "queue_arn" {
  description = "Queue of interruptions that Karpenter reads."
  type        = string
}

variable "namespace" {
  description = "Namespace of Karpenter."
  type        = string
  default     = "kube-system"
}

variable "service_account" {
  description = "Service account of Karpenter's controller."
  type        = string
  default     = "karpenter"
}
