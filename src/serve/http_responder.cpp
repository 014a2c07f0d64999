#include "serve/http_connection.h"

namespace nibble::serve {
namespace {

class Responder final : public HttpResponder {
 public:
  Responder(std::shared_ptr<HttpConnection> connection, std::uint64_t serial)
      : connection_(std::move(connection)), serial_(serial) {}
  ~Responder() override {
    // What was posted on the I/O thread may still wait behind this, which comes from any thread.
    if (!answered_ && !connection_->core().destroyed) {
      post([serial = serial_](HttpConnection& to) { to.abandoned(serial); });
    }
  }

  void respond(HttpResponse response) override {
    answered_ = true;
    post([serial = serial_, response = std::move(response)](HttpConnection& to) mutable {
      to.respond(serial, std::move(response));
    });
  }
  void begin_stream(HttpHeaders headers, std::string heartbeat) override {
    post([serial = serial_, headers = std::move(headers),
          heartbeat = std::move(heartbeat)](HttpConnection& to) mutable {
      to.begin_stream(serial, headers, std::move(heartbeat));
    });
  }
  void send(std::string part) override {
    post([serial = serial_, part = std::move(part)](HttpConnection& to) { to.send(serial, part); });
  }
  void end() override {
    answered_ = true;
    post([serial = serial_](HttpConnection& to) { to.end(serial); });
  }
  void on_disconnect(std::function<void()> call) override {
    post([serial = serial_, call = std::move(call)](HttpConnection& to) mutable {
      to.on_disconnect(serial, std::move(call));
    });
  }
  bool gone() const override { return connection_->closed(); }

 private:
  template <typename Call>
  void post(Call call) {
    boost::asio::post(
        connection_->core().io,
        [connection = connection_, call = std::move(call)]() mutable { call(*connection); });
  }

  std::shared_ptr<HttpConnection> connection_;
  std::uint64_t serial_;
  bool answered_ = false;  // as a whole
};

}  // namespace

std::shared_ptr<HttpResponder> make_responder(std::shared_ptr<HttpConnection> connection,
                                              std::uint64_t serial) {
  return std::make_shared<Responder>(std::move(connection), serial);
}

}  // namespace nibble::serve
