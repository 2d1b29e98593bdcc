# Who did what, and what others could do.

resource "aws_cloudtrail" "this" {
  #checkov:skip=CKV_AWS_252:deliveries are nobody's alert
  #checkov:skip=CKV2_AWS_10:the trail is kept in S3; a second copy in CloudWatch would cost more than all other logs
  count                         = var.trail ? 1 : 0
  name                          = var.name
  s3_bucket_name                = var.logs_bucket
  s3_key_prefix                 = "trail"
  kms_key_id                    = var.kms_key_arn
  enable_log_file_validation    = true
  include_global_service_events = true
  is_multi_region_trail         = true

  advanced_event_selector {
    name = "Management events"
    field_selector {
      field  = "eventCategory"
      equals = ["Management"]
    }
  }

  dynamic "advanced_event_selector" {
    for_each = length(var.data_bucket_arns) > 0 ? [1] : []
    content {
      name = "Objects of our buckets"
      field_selector {
        field  = "eventCategory"
        equals = ["Data"]
      }
      field_selector {
        field  = "resources.type"
        equals = ["AWS::S3::Object"]
      }
      field_selector {
        field       = "resources.ARN"
        starts_with = [for arn in var.data_bucket_arns : "${arn}/"]
      }
    }
  }
}

resource "aws_accessanalyzer_analyzer" "this" {
  count         = var.access_analyzer ? 1 : 0
  analyzer_name = var.name
  type          = "ACCOUNT"
}
