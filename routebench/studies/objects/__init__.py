"""Does routing find objects without labels?"""
