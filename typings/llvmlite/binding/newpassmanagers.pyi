# SPDX-License-Identifier: Apache-2.0
from llvmlite.binding import ModulePassManager

class NewPassManager:
    @staticmethod
    def _dispose(manager: ModulePassManager) -> None: ...
