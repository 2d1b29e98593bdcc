variable "name" {
  description = "Name of the bucket; the account's id is appended, because bucket names are global."
  type        = string
}

variable "kms_key_arn" {
  description = "Key that every object is encrypted with."
  type        = string
}

variable "logs_bucket" {
  description = "Bucket that the access logs go to, under s3/."
  type        = string
}
