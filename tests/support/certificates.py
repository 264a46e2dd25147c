"""A small authority for TLS tests, by openssl."""
import os
import subprocess


def make(folder, host="localhost"):
    """{"ca", "cert", "key", "client_cert", "client_key"}: paths. The server's certificate is for `host` and, if that is localhost, 127.0.0.1."""
    def path(name):
        return os.path.join(folder, name)

    def run(*argv):
        subprocess.run(["openssl", *argv], check=True, capture_output=True, timeout=60)

    run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=test authority",
        "-keyout", path("ca.key"), "-out", path("ca.pem"))
    names = "DNS:%s" % host + (",IP:127.0.0.1" if host == "localhost" else "")
    for name, extension in (("server", "subjectAltName=%s\nextendedKeyUsage=serverAuth" % names),
                            ("client", "extendedKeyUsage=clientAuth")):
        with open(path(name + ".ext"), "w") as f:
            f.write(extension + "\n")
        run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=" + name,
            "-keyout", path(name + ".key"), "-out", path(name + ".csr"))
        run("x509", "-req", "-in", path(name + ".csr"), "-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-CAcreateserial", "-days", "2",
            "-extfile", path(name + ".ext"), "-out", path(name + ".pem"))
    return {"ca": path("ca.pem"), "cert": path("server.pem"), "key": path("server.key"),
            "client_cert": path("client.pem"), "client_key": path("client.key")}
