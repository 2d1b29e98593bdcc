variable "name" {
  description = "Name of the secret."
  type        = string
}

variable "description" {
  description = "What the secret is for."
  type        = string
}

variable "kms_key_arn" {
  description = "Key of the secret."
  type        = string
}
