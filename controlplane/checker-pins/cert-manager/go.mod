// Nothing is built from it: its definitions tell whether our Issuers and Certificates are right.
module phalanx.dev/checkers/cert-manager

go 1.26.0

require github.com/cert-manager/cert-manager v1.21.2
