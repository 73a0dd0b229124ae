#include "tests/integration/peers/scripted_replica.hpp"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <utility>

namespace weir::integration {

void Exchange::send_bytewise(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) socket_.send(bytes.substr(i, 1));
}

void Exchange::send_until_taken(std::string_view bytes, Progress& sent, Event& stalled) {
  while (!bytes.empty()) {
    const auto n = socket_.send_some(bytes, std::chrono::milliseconds(500));
    if (n == 0) stalled.set();
    sent.add(n);
    bytes.remove_prefix(n);
  }
}

ScriptedReplica::ScriptedReplica(Handler handler, ModelsQuestion models, std::uint16_t port)
    : handler_(std::move(handler)),
      models_(models),
      called_off_(::eventfd(0, EFD_CLOEXEC)),
      listener_(Socket::listen(called_off_, port)),
      port_(listener_.port()),
      acceptor_([this] { accept_all(); }) {}

ScriptedReplica::~ScriptedReplica() {
  ::eventfd_write(called_off_, 1);
  acceptor_.join();
  for (auto& thread : threads_) thread.join();
  ::close(called_off_);
}

std::vector<ReceivedRequest> ScriptedReplica::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

ReceivedRequest ScriptedReplica::only_request() const {
  const auto all = requests();
  EXPECT_EQ(all.size(), 1u) << "requests at the replica";
  return all.empty() ? ReceivedRequest{} : all.front();
}

void ScriptedReplica::accept_all() {
  try {
    for (;;) {
      auto socket = listener_.accept();
      threads_.emplace_back([this, peer = std::move(socket)]() mutable { serve(std::move(peer)); });
    }
  } catch (const CalledOff&) {
  } catch (const std::exception& error) {
    ADD_FAILURE() << "scripted replica: " << error.what();
  }
}

std::optional<ReceivedRequest> ScriptedReplica::receive(MessageReader& reader) {
  auto head = reader.head();
  if (!head) return std::nullopt;
  ReceivedRequest request;
  const auto& line = head->start_line;
  const auto first = line.find(' '), last = line.rfind(' ');
  if (first == last) throw NotHttp("not a request line: '" + line + "'");
  request.method = line.substr(0, first);
  request.target = line.substr(first + 1, last - first - 1);
  request.version = line.substr(last + 1);
  reader.body_by_fields(*head, false);
  while (reader.more(request.body)) {
  }
  if (reader.end() != BodyEnd::whole) throw PeerGone("the request's body was cut");
  request.head = std::move(*head);
  return request;
}

void ScriptedReplica::serve(Socket socket) {
  try {
    MessageReader reader(socket);
    std::size_t connection = 0;
    for (std::size_t i = 1; socket.is_open(); ++i) {
      auto request = receive(reader);
      if (!request) return;
      const bool of_weir = request->head.field("user-agent") == "weir";
      const bool models = of_weir && request->target.ends_with("/v1/models");
      if (of_weir && request->target.ends_with("/health")) {
        socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        return probes_.add(1);
      }
      if (models && models_ == ModelsQuestion::answered_unseen)
        return socket.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
      request->on_connection = i;
      {
        const std::lock_guard lock(mutex_);
        if (i == 1) {
          connections_.add(1);
          connection = connections_.value();
        }
        request->connection = connection;
        request->number = requests_.size() + 1;
        requests_.push_back(*request);
      }
      received_.add(1);
      Exchange exchange(socket, std::move(*request));
      handler_(exchange);
    }
  } catch (const CalledOff&) {
  } catch (const PeerGone&) {
  } catch (const std::exception& error) {
    ADD_FAILURE() << "scripted replica: " << error.what();
  }
}

}  // namespace weir::integration
