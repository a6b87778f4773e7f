# Builds nothing itself: put the provisioners into your image's build. As it stands it runs them on
# a machine that answers ssh:  packer build -var host=10.0.0.7 contrib/packer
# A failed provisioner fails the build, so that no image without a working gpuscan is made.
variable "host" {
  type = string
}

variable "port" {
  type    = number
  default = 22
}

variable "user" {
  type    = string
  default = "root"
}

variable "key" {
  type    = string
  default = "~/.ssh/id_ed25519"
}

variable "wheelhouse" {
  type    = string
  default = "wheelhouse"
}

source "null" "image" {
  ssh_host             = var.host
  ssh_port             = var.port
  ssh_username         = var.user
  ssh_private_key_file = var.key
}

build {
  sources = ["source.null.image"]

  provisioner "shell" {
    inline = ["mkdir -p /tmp/gpuscan-install"]
  }

  provisioner "file" {
    source      = var.wheelhouse
    destination = "/tmp/gpuscan-install"
  }

  provisioner "shell" {
    script          = "${path.root}/../install/install.sh"
    execute_command = "chmod +x {{ .Path }}; {{ .Vars }} {{ .Path }} /tmp/gpuscan-install/wheelhouse"
  }

  provisioner "shell" {
    script = "${path.root}/test-image.sh"
  }

  provisioner "shell" {
    inline = ["rm -r /tmp/gpuscan-install"]
  }
}
