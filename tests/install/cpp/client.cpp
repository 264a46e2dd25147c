// A client outside Waybill's tree, in C++: one request, and who served it. Every public header is included by itself.
#include <waybill/client.h>
#include <waybill/status.h>
#include <waybill/types.h>
#include <waybill/version.h>
#include <waybill/worker.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

using Result = std::unique_ptr<wb_result, decltype(&wb_result_destroy)>;
using Connection = std::unique_ptr<natsConnection, decltype(&natsConnection_Destroy)>;

static int ask(natsConnection *nc, const char *subject, const std::string &text)
{
    wb_request_options options{};
    options.timeout_ms = 5000;
    wb_result *raw = nullptr;
    wb_status status = wb_request(nc, subject, text.data(), text.size(), &options, &raw);
    Result result(raw, wb_result_destroy);
    if (status != WB_OK || wb_result_code(result.get()) != 0) {
        std::cerr << wb_status_text(status) << "\n";
        return 1;
    }
    std::size_t length = 0;
    const char *data = static_cast<const char *>(wb_result_data(result.get(), &length));
    const char *header = wb_result_header(result.get(), "X-Served-By");
    std::cout << WB_VERSION << " " << wb_result_worker(result.get()) << " " << (header != nullptr ? header : "-") << " "
              << std::string(data, length) << std::endl;
    return 0;
}

int main(int argc, char **argv)
{
    natsConnection *raw = nullptr;
    if (argc != 3 || natsConnection_ConnectTo(&raw, std::getenv("NATS_URL")) != NATS_OK)
        return 2;
    int code;
    {
        Connection nc(raw, natsConnection_Destroy);
        code = ask(nc.get(), argv[1], argv[2]);
    }
    nats_Close();
    return code;
}
