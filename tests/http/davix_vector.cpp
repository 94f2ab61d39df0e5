// Reads ranges of a file by one vector read of davix, and writes their bytes to standard output.
// Usage: davix-vector URL OFFSET LENGTH [OFFSET LENGTH ...]

#include <davix.hpp>

#include <cstdlib>
#include <fcntl.h>
#include <iostream>
#include <string>
#include <vector>

int main(int count, char **arguments) {
    const std::vector<std::string> given(arguments + 1, arguments + count);
    std::vector<std::vector<char>> parts;
    std::vector<Davix::DavIOVecInput> wanted;
    for (std::size_t place = 1; place + 1 < given.size(); place += 2) {
        const auto len = std::strtoull(given[place + 1].c_str(), nullptr, 10);
        parts.emplace_back(len);
        wanted.push_back({parts.back().data(), std::strtoll(given[place].c_str(), nullptr, 10), len});
    }
    Davix::Context context;
    Davix::RequestParams params;
    Davix::DavPosix files(&context);
    Davix::DavixError *error = nullptr;
    DAVIX_FD *file = files.open(&params, given.at(0), O_RDONLY, &error);
    std::vector<Davix::DavIOVecOuput> read(wanted.size());
    if (file == nullptr || files.preadVec(file, wanted.data(), read.data(), wanted.size(), &error) < 0) {
        std::cerr << (error == nullptr ? "davix gives no reason" : error->getErrMsg()) << '\n';
        return 1;
    }
    for (std::size_t place = 0; place < parts.size(); ++place) {
        std::cout.write(parts[place].data(), read[place].diov_size);
    }
    files.close(file, nullptr);
    return std::cout.flush() ? 0 : 1;
}
