#!/bin/sh
# A certificate authority of your own, and a certificate of the SuperLink that it signs:
#     certificates.sh FOLDER [NAME-OR-ADDRESS ...]
# The names are those by which nodes reach the SuperLink; localhost and 127.0.0.1, by which its own processes do, are always
# among them. Where FOLDER holds an authority already, it signs a new certificate: run this again before the old one ends.
set -eu
umask 077

if [ "$#" -lt 1 ]; then
    echo "usage: $0 FOLDER [NAME-OR-ADDRESS ...]" >&2
    exit 2
fi
folder=$1
shift

names="DNS:localhost,IP:127.0.0.1"
for name in "$@"; do
    case $name in
        *:*) names="$names,IP:$name" ;;
        *[!0-9.]*) names="$names,DNS:$name" ;;
        *) names="$names,IP:$name" ;;
    esac
done

mkdir -p "$folder"
draft=$(mktemp -d "$folder/draft.XXXXXX")
trap 'rm -rf "$draft"' EXIT

if [ ! -e "$folder/ca.key" ]; then
    openssl ecparam -name secp384r1 -genkey -noout -out "$draft/ca.key"
    openssl req -new -x509 -sha384 -days 3650 -key "$draft/ca.key" -subj "/CN=turnout quickstart authority" \
        -addext "keyUsage=critical,keyCertSign,cRLSign" -out "$draft/ca.crt"
    chmod 644 "$draft/ca.crt"
    mv "$draft/ca.crt" "$draft/ca.key" "$folder"
fi

openssl ecparam -name secp384r1 -genkey -noout -out "$draft/server.key"
openssl req -new -sha384 -key "$draft/server.key" -subj "/CN=SuperLink" -out "$draft/server.csr"
cat > "$draft/extensions" << EXTENSIONS
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=serverAuth
subjectAltName=$names
EXTENSIONS
openssl x509 -req -sha384 -days 397 -in "$draft/server.csr" -CA "$folder/ca.crt" -CAkey "$folder/ca.key" \
    -CAserial "$draft/serial" -CAcreateserial -extfile "$draft/extensions" -out "$draft/server.crt" 2> /dev/null
chmod 644 "$draft/server.crt"
mv "$draft/server.crt" "$draft/server.key" "$folder"
echo "$folder: ca.crt for everyone, server.crt and server.key for the SuperLink ($names); keep ca.key off the network"
