variable "name" {
  description = "Name of the table."
  type        = string
}

variable "kms_key_arn" {
  description = "Key of the table."
  type        = string
}
